"""Judge a query: one status, and one sentence with the finding, its evidence and a comparison.

Pure: the verdict depends on the view and on `now` alone. `STEPS` run in order and the first that returns a
verdict decides: queries that do not run (`controlplane.health.terminal_status`), then idle, stuck, lagging,
busy, running. Called by the API and by the periodic task that records status changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from controlplane.health import driver_status, lag, terminal_status
from controlplane.health.context import QueryContext, context_at
from controlplane.health.formatting import clock, number, offsets, rows, span
from controlplane.health.host import overload_sentence
from controlplane.health.thresholds import DEFAULTS, Thresholds
from controlplane.model import ProgressSample, QueryStatus, QueryView, Verdict

#: Statuses of a running query, whose reason names an overload of its host.
SLOWED = frozenset(
    {
        QueryStatus.STUCK,
        QueryStatus.LAGGING,
        QueryStatus.BUSY,
        QueryStatus.STARTING,
        QueryStatus.RUNNING,
        QueryStatus.RESTARTING,
    }
)


def judge(
    view: QueryView, now: float, limits: Thresholds = DEFAULTS, listening_since: float = 0.0
) -> Verdict:
    """Return the status of a query at `now` (Unix seconds) and its reason.

    `listening_since`: when the server started; from then agents have the time of
    `Thresholds.silent_seconds` to send a heartbeat.
    """
    return judge_context(context_at(view, now, limits, listening_since))


def judge_context(asked: QueryContext) -> Verdict:
    """The same for a context, which keeps what it has computed."""
    known = asked.known_until
    context = asked if known == asked.now else replace(asked, now=known)
    verdict = next(verdict for step in STEPS if (verdict := step(context)) is not None)
    return replace(
        verdict,
        reason=verdict.reason
        + _late_events(asked)
        + _missed_heartbeats(asked)
        + _slow_answer(asked)
        + _overload(context, verdict)
        + _executors(context, verdict),
    )


def _overload(context: QueryContext, verdict: Verdict) -> str:
    slowed = verdict.status in SLOWED and context.host_is_fresh
    return overload_sentence(context.view.host) if slowed else ""


def _executors(context: QueryContext, verdict: Verdict) -> str:
    if verdict.status in SLOWED and _lacks_executors(context):
        return " The driver has no executor, so no task can run."
    return ""


def _lacks_executors(context: QueryContext) -> bool:
    """Whether a batch cannot run for lack of executors. Local mode has none; an idle query may need none."""
    agent = context.view.agent
    local = agent is None or not agent.master or agent.master.startswith("local")
    return not local and context.view.executors == 0 and context.in_batch


def _late_events(context: QueryContext) -> str:
    """A note while the verdict is that of an earlier time."""
    known, limits = context.known_until, context.limits
    if context.now - known <= limits.unresponsive_seconds:
        return ""
    if context.last_contact_at - known > limits.unresponsive_seconds:
        return f" Its events are {span(context.last_contact_at - known)} behind."
    return f" As of {clock(known, context.now)}, before the server was away."


def _missed_heartbeats(context: QueryContext) -> str:
    """A note while the driver of an active query is silent, but not for long enough to be lost."""
    limits, silence = context.limits, context.silent_for
    if not context.active or not limits.unresponsive_seconds < silence <= limits.silent_seconds:
        return ""
    return f" No heartbeat from the driver for {span(silence)} (expected every 10 s)."


def _slow_answer(context: QueryContext) -> str:
    """A note while Spark does not answer the agent, but not for long enough to be unreachable."""
    waited = context.unanswered_seconds
    if not context.active or waited <= context.limits.unresponsive_seconds:
        return ""
    return f" Spark has not answered for {span(waited)}, although the driver sends heartbeats."


def _idle(context: QueryContext) -> Verdict | None:
    idle_at, status = context.last_idle_at, context.fresh_status
    if idle_at is None:
        return None
    limit = max(context.limits.idle_seconds, context.limits.batch_triggers * context.interval)
    outdated = context.now - idle_at > limit
    if status is not None and status.trigger_active and (status.data_available or outdated):
        return None
    return Verdict(QueryStatus.IDLE, f"Idle: no new data for {span(context.now - _last_data_at(context))}.")


def _last_data_at(context: QueryContext) -> float:
    """When rows were last read; the start of the run if none were."""
    read = (s.at for s in reversed(context.view.progress) if s.input_rows > 0)
    return next(read, context.run.started_at if context.run else context.view.first_seen_at)


def _continuous(context: QueryContext) -> Verdict | None:
    """Continuous processing, for which Spark reports no progress."""
    epoch = context.fresh_status.epoch if context.fresh_status else None
    if context.view.facts.trigger != "continuous" or epoch is None:
        return None
    reason = f"Running: epoch {epoch} is committed. Spark reports no progress for continuous processing."
    return Verdict(QueryStatus.RUNNING, reason)


def _starting(context: QueryContext) -> Verdict | None:
    has_reported = context.last is not None or context.last_idle_at is not None
    return None if has_reported or context.activity_age > context.busy_after else _no_batch_yet(context)


def _no_batch_yet(context: QueryContext) -> Verdict:
    status = context.view.status
    stage = f" ({status.message})" if status and status.message else ""
    reason = f"Starting: started {span(context.activity_age)} ago, no batch yet{stage}."
    return Verdict(QueryStatus.STARTING, reason)


def _stuck_batch(context: QueryContext) -> Verdict | None:
    quiet = context.seconds_without_task
    if quiet is None or not context.in_batch or context.activity_age <= context.stuck_after:
        return None
    if quiet <= context.limits.quiet_tasks_seconds:
        return None
    reason = f"Stuck: {_running_batch(context)} and no task has finished for {span(quiet)}."
    return Verdict(QueryStatus.STUCK, reason)


def _running_batch(context: QueryContext) -> str:
    batch = f"batch {context.last.batch_id + 1}" if context.last else "the first batch"
    typical = f" (usually {span(context.p95_batch_seconds)})" if context.p95_batch_seconds else ""
    return f"{batch} has run for {span(context.activity_age)}{typical}"


def _stuck_source(context: QueryContext) -> Verdict | None:
    stalled = _worst(context, lag.LagTrend.STALLED)
    if stalled is None:
        return None
    waiting = stalled.lags[-1]
    are = f"{_amount(waiting, stalled, context)} {'is' if round(waiting) == 1 else 'are'}"
    read = f"the last {len(stalled.lags)} batches read nothing from {_place(stalled)}"
    reason = f"Stuck: {read} although {are} waiting{_oldest_row(context)}."
    return Verdict(QueryStatus.STUCK, reason)


def _falling_behind(context: QueryContext) -> Verdict | None:
    growing = None if context.ends_by_itself else _worst(context, lag.LagTrend.GROWING)
    if growing is None:
        return None
    one_source = growing.part is None and context.last is not None and len(context.last.sources) == 1
    backlog = "backlog" if one_source else f"the backlog of {_place(growing)}"
    first, last, seconds = growing.lags[0], growing.lags[-1], span(growing.seconds)
    if last > first:
        trend = f"{backlog} grew from {number(first)} to {_amount(last, growing, context)} in {seconds}"
    else:
        trend = f"{backlog} has stayed at {_amount(last, growing, context)} for {seconds}"
    return Verdict(QueryStatus.LAGGING, f"Falling behind: {trend}{_oldest_row(context)}.")


def _amount(lag_offsets: float, window: lag.LagWindow, context: QueryContext) -> str:
    return rows(lag_offsets) if window.source in context.row_sources else offsets(lag_offsets)


def _worst(context: QueryContext, trend: lag.LagTrend) -> lag.LagWindow | None:
    """Of the sources and partitions with this trend, the one whose backlog grew most."""
    found = (window for window in context.lag_windows if lag.trend(window, context.limits) is trend)
    return max(found, key=lambda window: window.growth, default=None)


def _place(window: lag.LagWindow) -> str:
    source = window.source[:120]
    return source if window.part is None else f"{window.part} of {source}"


def _oldest_row(context: QueryContext) -> str:
    age = context.lag_seconds
    return f"; the oldest unread row is {span(age)} old" if age else ""


def _behind_in_time(context: QueryContext) -> Verdict | None:
    age = context.lag_seconds
    if age is None or age <= context.behind_after or context.ends_by_itself:
        return None
    points = lag.lag_points(lag.trend_window(context.batches, context.limits) or context.batches)
    left = lag.catch_up_seconds(points)
    pace = "it is not catching up" if left is None else f"it will catch up in about {span(left)}"
    backlog = f"the oldest unread row is {span(age)} old and the backlog is {_backlog(context)}"
    return Verdict(QueryStatus.LAGGING, f"Behind: {backlog}; {pace}.")


def _backlog(context: QueryContext) -> str:
    """`148 rows`; where offsets do not count rows `12 offsets, about 4 batches`."""
    samples = context.view.progress
    waiting = samples[-1].lag_offsets if samples else None
    if waiting is None:
        return "unknown"
    if all(source.name in context.row_sources for source in samples[-1].sources if source.lag_offsets):
        return rows(waiting)
    batches = lag.lag_batches(samples)
    about = (
        "" if batches is None else f", about {number(math.ceil(batches))} batch{'' if batches <= 1 else 'es'}"
    )
    return f"{offsets(waiting)}{about}"


def _busy(context: QueryContext) -> Verdict | None:
    if not context.in_batch or (context.activity_age <= context.busy_after and not _lacks_executors(context)):
        return None
    return Verdict(QueryStatus.BUSY, f"Busy: {_running_batch(context)}; {_task_activity(context)}.")


def _task_activity(context: QueryContext) -> str:
    quiet, status = context.seconds_without_task, context.fresh_status
    if quiet is None or status is None:
        return "its task activity is unknown"
    if status.last_task_at is None or status.last_task_at < context.last_activity_at:
        return f"no task has finished yet (allowed: {span(context.stuck_after)})"
    done = "" if status.tasks_completed is None else f", {number(status.tasks_completed)} finished so far"
    return f"the last task finished {span(quiet)} ago{done}"


def _delayed(context: QueryContext) -> Verdict | None:
    """Long batches of a source without a known lag: new rows show only in the next batch."""
    delay = _delay(context)
    if delay <= context.behind_after or context.ends_by_itself:
        return None
    batches = f"batches take {span(context.p95_batch_seconds)}"
    return Verdict(QueryStatus.LAGGING, f"Delayed: results are {span(delay)} old because {batches}.")


def _delay(context: QueryContext) -> float:
    """The longest wait of a row from its arrival to the end of its batch, in seconds; 0.0 where lag is known."""
    if context.last is None or context.last.lag_offsets:
        return 0.0
    since = context.now - lag.triggered_at(context.last) if context.in_batch else 0.0
    return max(since, sum(sample.duration for sample in context.batches[-2:]))


def _running(context: QueryContext) -> Verdict:
    last = context.last
    if last is None:
        return _no_batch_yet(context)
    batch = _batch_duration(context, last)
    if last.lag_offsets is None:
        unknown = f"Backlog unknown: {lag_unknown(context)}."
        return Verdict(QueryStatus.RUNNING, f"Running. {unknown} {batch[0].upper()}{batch[1:]}.")
    if last.lag_offsets:
        return Verdict(QueryStatus.RUNNING, f"Running: {_steady_backlog(context)}; {batch}.")
    if 0 < context.interval < last.duration:
        longer = f"batch {last.batch_id} took {span(last.duration)}, longer than the trigger interval of"
        return Verdict(QueryStatus.RUNNING, f"Running: no backlog, but {longer} {span(context.interval)}.")
    return Verdict(QueryStatus.RUNNING, f"Keeping up: no backlog, {batch}.")


def _batch_duration(context: QueryContext, last: ProgressSample) -> str:
    interval = f" of a {span(context.interval)} trigger interval" if context.interval else ""
    return f"batch {last.batch_id} took {span(last.duration)}{interval}"


def lag_unknown(context: QueryContext) -> str | None:
    """Why the newest batch has no lag in rows; None if it has one, or there is no batch."""
    samples = context.view.progress
    if not samples:
        return None
    names = {source.name for source in samples[-1].sources}
    if samples[-1].lag_offsets is not None:
        counting = all(
            s.name in context.row_sources for s in samples[-1].sources if s.lag_offsets is not None
        )
        return None if counting else "the source's offsets do not count rows"
    reports = any(s.latest for sample in samples for s in sample.sources if s.name in names)
    if reports and len(context.batches) == 1:
        return f"batch {samples[-1].batch_id} repeats a planned batch; the next one reports the latest offset"
    return "the source does not report a latest offset"


def _steady_backlog(context: QueryContext) -> str:
    few = len(context.batches) < context.limits.trend_samples
    trend = "too few batches for a trend" if few else "not growing steadily"
    age = f", the oldest unread row is {span(context.lag_seconds)} old" if context.lag_seconds else ""
    return f"backlog {_backlog(context)} ({trend}){age}"


STEPS: tuple[Callable[[QueryContext], Verdict | None], ...] = (
    terminal_status.retired,
    terminal_status.restarting,
    terminal_status.start_failed,
    driver_status.ended_with_driver,
    terminal_status.ended,
    terminal_status.lost_contact,
    driver_status.unreachable,
    terminal_status.never_ran,
    terminal_status.disappeared,
    _continuous,
    _idle,
    _starting,
    _stuck_batch,
    _stuck_source,
    _falling_behind,
    _behind_in_time,
    _busy,
    _delayed,
    _running,
)
