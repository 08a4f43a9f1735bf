"""One query's past: its view as it was at any time, and its counters then. Pure.

The view has what stored events tell: runs and their ends, reports, rests. What only polls tell is not in it, and
the query goes by the name and labels that it has now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest

from controlplane.events.lifecycle import batch_counts
from controlplane.events.run_resolution import INFERRED, failure_kind
from controlplane.health import terminal_status
from controlplane.health.context import context_at
from controlplane.health.thresholds import DEFAULTS
from controlplane.metrics.samples import Totals
from controlplane.model import Agent, ProgressSample, QueryStatus, QueryView, Run, Verdict
from controlplane.records import RunRow

_ENDINGS = (
    terminal_status.retired,
    terminal_status.start_failed,
    terminal_status.ended,
    terminal_status.never_ran,
)


@dataclass(frozen=True, eq=False)
class QueryHistory:
    """What is known of a query. `view`: it is now; all else in the order of time; `rests` by the key of the run.

    `length`: reports that a view holds at most.
    """

    view: QueryView
    runs: Sequence[RunRow]
    reports: Sequence[ProgressSample]
    rests: Mapping[int, Sequence[float]]
    changes: Sequence[tuple[float, QueryStatus]]
    length: int
    agents: Mapping[str, Agent] = field(default_factory=dict)

    @cached_property
    def _starts(self) -> list[float]:
        return [row.run.started_at for row in self.runs]

    @cached_property
    def _times(self) -> list[float]:
        return [report.at for report in self.reports]

    @cached_property
    def _changed(self) -> list[float]:
        return [at for at, _ in self.changes]

    def run(self, t: float) -> RunRow | None:
        """The newest run that had begun at `t`."""
        place = bisect_right(self._starts, t)
        return self.runs[place - 1] if place else None

    def born(self, t: float) -> float:
        """When the query last began to be what its name stands for."""
        row, failed = self.run(t), self.view.start_failed_at
        if row is not None:
            return row.run.started_at
        return failed if failed is not None and failed <= t else self.view.first_seen_at

    def status(self, t: float) -> QueryStatus | None:
        """The verdict on record."""
        place = bisect_right(self._changed, t)
        return self.changes[place - 1][1] if place else None

    def state(self, t: float) -> tuple[object, ...]:
        """Equal at two moments between which nothing happened."""
        row = self.run(t)
        ends = row is not None and _over(row, t)
        agent = self._agent(row, t)
        gone = agent is not None and agent.ended_at is not None
        places = bisect_right(self._times, t), bisect_right(self._changed, t)
        return (*places, row.run.run_id if row else None, ends, gone, self._rested_at(row, t))

    def at(self, t: float) -> QueryView | None:
        """The view at `t`; None before the query was known."""
        row, view = self.run(t), self.view
        if row is None and not min(view.first_seen_at, view.start_failed_at or view.first_seen_at) <= t:
            return None
        place = bisect_right(self._times, t)
        return replace(
            view,
            agent=self._agent(row, t),
            run=_run_at(row, t) if row else None,
            facts=row.facts if row else view.facts,
            progress=tuple(self.reports[max(0, place - self.length) : place]),
            idle_at=self._rested_at(row, t),
            status=None,
            polled_at=None,
            start_failed_at=_by(view.start_failed_at, t),
            retired_at=_by(view.retired_at, t),
            action=None,
        )

    def verdict(self, view: QueryView, t: float) -> Verdict:
        """The one on record; where none is any more, as far as the view tells whether the query ran."""
        status = self.status(t)
        if status is not None:
            return Verdict(status, "as recorded")
        case = context_at(view, t, DEFAULTS)
        told = (verdict for step in _ENDINGS if (verdict := step(case)) is not None)
        return next(told, Verdict(QueryStatus.RUNNING, "nothing else is on record"))

    def _agent(self, row: RunRow | None, t: float) -> Agent | None:
        agent = self.agents.get(row.run.agent) if row else None
        return replace(agent, ended_at=_by(agent.ended_at, t)) if agent else None

    def _rested_at(self, row: RunRow | None, t: float) -> float | None:
        times = self.rests.get(row.run.key, ()) if row else ()
        place = bisect_right(times, t)
        return times[place - 1] if place else None


def _by(at: float | None, t: float) -> float | None:
    return at if at is not None and at <= t else None


def _over(row: RunRow, t: float) -> bool:
    """Whether it was known to be over. That a run was lost shows only when the next one has begun."""
    return row.run.ended_at is not None and row.run.ended_at <= t and row.ended_by not in INFERRED


def _run_at(row: RunRow, t: float) -> Run:
    if _over(row, t):
        return row.run
    return replace(row.run, ended_at=None, end=None, failure_text=None, error_class=None)


def holders_of_name(histories: Sequence[QueryHistory], t: float) -> set[str]:
    """Of queries of one name, those that went by it at `t`: the one born last, and what ran beside it."""
    known = [one for one in histories if one.at(t) is not None]
    newest = max(known, key=lambda one: (one.born(t), one.view.query_id), default=None)
    return {one.view.query_id for one in known if one is newest or _beside(one, newest, t)}


def _beside(one: QueryHistory, newest: QueryHistory | None, t: float) -> bool:
    """Whether one driver ran both at that time."""
    mine, other = one.run(t), newest.run(t) if newest else None
    if mine is None or other is None or mine.run.agent != other.run.agent:
        return False
    return not _over(mine, t)


# -- counters --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CounterIncrease:
    """What counters rose by at a moment."""

    at: float
    amounts: Mapping[str, float]


def counter_increases(
    history: QueryHistory,
    after: float,
    batches_at: Iterable[float],
    failed_starts: Iterable[tuple[float, str]],
) -> list[CounterIncrease]:
    """What was counted after `after`, oldest first.

    `batches_at`: times of batches whose reports were not read; `failed_starts`: time and kind of each.
    """
    found = [
        CounterIncrease(report.at, batch_counts(report)) for report in history.reports if report.at > after
    ]
    found += [CounterIncrease(at, {"batches": 1}) for at in batches_at]
    for at, kind in failed_starts:
        found.append(CounterIncrease(at, {"starts": 1, f"failures|{kind}": 1}))
    for row, later in zip_longest(history.runs, history.runs[1:]):
        run, failed = row.run, failure_kind(row)
        found.append(CounterIncrease(run.started_at, {"starts": 1}))
        if run.ended_at is not None and failed is not None:
            # That a run was lost is known once the next one has begun.
            at = later.run.started_at if later and row.ended_by == "lost" else run.ended_at
            found.append(CounterIncrease(at, {f"failures|{failed}": 1}))
    return sorted((one for one in found if one.at > after), key=lambda one: one.at)


#: Counters that no batch adds to.
ONCE = ("starts", "failures")


class CounterReplay:
    """Counters at a time that goes forward: the totals of now less what came after. `place`: additions so far."""

    def __init__(self, totals: Totals, later: Sequence[CounterIncrease]):
        self._later, self.place = later, 0
        self._totals = dict(totals)
        for one in later:
            self._add(one, -1)
        # A 0 of before the first addition known may stand for "never counted"; most counters begin together.
        counting = self._totals.get("batches", 0) > 0
        self._begun = {n for n, v in self._totals.items() if v > 0 or (counting and not n.startswith(ONCE))}

    def go_to(self, t: float) -> None:
        while self.place < len(self._later) and self._later[self.place].at <= t:
            self._add(self._later[self.place], 1)
            self._begun.update(self._later[self.place].amounts)
            self.place += 1

    @property
    def totals(self) -> Totals:
        return {name: value for name, value in self._totals.items() if name in self._begun}

    def _add(self, one: CounterIncrease, sign: int) -> None:
        for name, amount in one.amounts.items():
            if name in self._totals:
                self._totals[name] += sign * amount
