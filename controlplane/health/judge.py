"""Judges a query from what is known of it: one status, and one sentence that names the figures.

Pure: everything comes from the view and `now`. `STEPS` are asked in order and the first that answers
decides: what has ended (`controlplane.health.terminal_status`), what rests, hangs, falls behind, takes long, runs.
Called by the API and by the tick that records changes of status.
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.health import lag, terminal_status
from controlplane.health.context import QueryContext, context_at
from controlplane.health.formatting import rows, span
from controlplane.health.thresholds import DEFAULTS, Thresholds
from controlplane.model import QueryStatus, QueryView, Verdict


def judge(
    view: QueryView, now: float, limits: Thresholds = DEFAULTS, listening_since: float = 0.0
) -> Verdict:
    """The status of a query at `now` (Unix seconds) and why.

    `listening_since`: the server's start, so that agents have a minute to be heard again after it.
    """
    case = context_at(view, now, limits, listening_since)
    return next(verdict for step in STEPS if (verdict := step(case)) is not None)


def _idle(case: QueryContext) -> Verdict | None:
    rested_at, status = case.rested_at, case.polled
    if rested_at is None:
        return None
    old = case.now - rested_at > max(case.limits.rest_seconds, case.limits.long_triggers * case.interval)
    if status is not None and status.trigger_active and (status.data_available or old):
        return None
    return Verdict(QueryStatus.IDLE, f"no new data for {span(case.now - _last_data_at(case))}")


def _last_data_at(case: QueryContext) -> float:
    """When rows were last read; before the first the run's start."""
    read = (s.at for s in reversed(case.view.progress) if s.input_rows > 0)
    return next(read, case.run.started_at if case.run else case.view.first_seen_at)


def _continuous(case: QueryContext) -> Verdict | None:
    """Spark reports no progress of continuous processing."""
    epoch = case.polled.epoch if case.polled else None
    if case.view.facts.trigger != "continuous" or epoch is None:
        return None
    return Verdict(QueryStatus.RUNNING, f"epoch {epoch} is committed; Spark gives no figures of such a query")


def _starting(case: QueryContext) -> Verdict | None:
    if case.last is not None or case.rested_at is not None or case.age > case.long_after:
        return None
    return _no_batch_yet(case)


def _no_batch_yet(case: QueryContext) -> Verdict:
    stage = f" ({case.view.status.message})" if case.view.status and case.view.status.message else ""
    return Verdict(QueryStatus.STARTING, f"started {span(case.age)} ago, no batch yet{stage}")


def _hung(case: QueryContext) -> Verdict | None:
    quiet = case.tasks_quiet
    if quiet is None or not case.in_batch or case.age <= case.hung_after:
        return None
    if quiet <= case.limits.quiet_tasks_seconds:
        return None
    return Verdict(QueryStatus.STUCK, f"{_batch_words(case)} and no task finished for {span(quiet)}")


def _batch_words(case: QueryContext) -> str:
    batch = f"the batch after {case.last.batch_id}" if case.last else "its first batch"
    usual = f" (usual {span(case.usual)})" if case.usual else ""
    return f"{batch} runs for {span(case.age)}{usual}"


def _stalled(case: QueryContext) -> Verdict | None:
    trail = _worst(case, lag.LagTrend.STALLED)
    if trail is None:
        return None
    read = f"{len(trail.lags)} batches read nothing of {_where(trail)}"
    return Verdict(QueryStatus.STUCK, f"{read} while {rows(trail.lags[-1])} wait{_behind_words(case)}")


def _growing(case: QueryContext) -> Verdict | None:
    trail = None if case.ends_by_itself else _worst(case, lag.LagTrend.GROWING)
    if trail is None:
        return None
    path = f"from {rows(trail.lags[0])} to {rows(trail.lags[-1])} in {span(trail.seconds)}"
    return Verdict(QueryStatus.LAGGING, f"the lag of {_where(trail)} never fell, {path}{_behind_words(case)}")


def _worst(case: QueryContext, trend: lag.LagTrend) -> lag.LagWindow | None:
    """Of the sources and partitions with this trend, the one whose lag grew most."""
    found = (trail for trail in case.trails if lag.trend(trail, case.limits) is trend)
    return max(found, key=lambda trail: trail.grown, default=None)


def _where(trail: lag.LagWindow) -> str:
    source = trail.source[:120]
    return source if trail.part is None else f"{trail.part} of {source}"


def _behind_words(case: QueryContext) -> str:
    return f", {span(case.behind)} behind" if case.behind else ""


def _behind(case: QueryContext) -> Verdict | None:
    behind = case.behind
    if behind is None or behind <= case.behind_after or case.ends_by_itself:
        return None
    left = lag.catch_up_seconds(lag.lag_points(lag.trend_window(case.batches, case.limits) or case.batches))
    pace = "not catching up" if left is None else f"catching up, about {span(left)} left"
    return Verdict(QueryStatus.LAGGING, f"{span(behind)} behind, {_waiting_words(case)}; {pace}")


def _waiting_words(case: QueryContext) -> str:
    waiting = case.view.progress[-1].lag_rows if case.view.progress else None
    return "lag in rows unknown" if waiting is None else f"{rows(waiting)} wait"


def _busy(case: QueryContext) -> Verdict | None:
    if not case.in_batch or case.age <= case.long_after:
        return None
    return Verdict(QueryStatus.BUSY, f"{_batch_words(case)}; {_task_words(case)}")


def _task_words(case: QueryContext) -> str:
    quiet, status = case.tasks_quiet, case.polled
    if quiet is None or status is None:
        return "nothing is known of its tasks"
    if status.last_task_at is None or status.last_task_at < case.heard_at:
        return f"no task finished yet, {span(case.hung_after)} are allowed"
    done = "" if status.tasks_completed is None else f", {status.tasks_completed} are done"
    return f"the last task finished {span(quiet)} ago{done}"


def _outdated(case: QueryContext) -> Verdict | None:
    """Where a source tells no lag, rows that come during a batch show only in the next one."""
    delay = _delay(case)
    if delay <= case.behind_after or case.ends_by_itself:
        return None
    return Verdict(
        QueryStatus.LAGGING, f"its results are {span(delay)} old, as its batches take {span(case.usual)}"
    )


def _delay(case: QueryContext) -> float:
    """The longest that a row waits from its arrival to the end of its batch; 0.0 where heads tell of lag."""
    if case.last is None or case.last.lag_rows:
        return 0.0
    since = case.now - lag.triggered_at(case.last) if case.in_batch else 0.0
    return max(since, sum(sample.duration for sample in case.batches[-2:]))


def _running(case: QueryContext) -> Verdict:
    if case.last is None:
        return _no_batch_yet(case)
    return Verdict(
        QueryStatus.RUNNING, f"batch {case.last.batch_id} took {span(case.last.duration)}; {_pace(case)}"
    )


def _pace(case: QueryContext) -> str:
    waiting = case.last.lag_rows if case.last else None
    if waiting is None:
        return "lag unknown, no source of it tells its head"
    if not waiting:
        return f"keeps up: lag {rows(0)}"
    few = len(case.batches) < case.limits.trend_samples
    trend = "too few batches yet to see a trend" if few else "it does not keep growing"
    return (
        f"lag {rows(waiting)}"
        + (f", the oldest {span(case.behind)} old" if case.behind else "")
        + f"; {trend}"
    )


STEPS: tuple[Callable[[QueryContext], Verdict | None], ...] = (
    terminal_status.retired,
    terminal_status.restarting,
    terminal_status.start_failed,
    terminal_status.ended,
    terminal_status.lost_contact,
    terminal_status.never_ran,
    terminal_status.disappeared,
    _continuous,
    _idle,
    _starting,
    _hung,
    _stalled,
    _growing,
    _behind,
    _busy,
    _outdated,
    _running,
)
