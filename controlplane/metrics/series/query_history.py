"""The history of one query: its view and its counters at any past time. Pure.

A past view holds what events record: runs and their ends, reports, idle triggers. It lacks values that only
polls provide, and has the query's current name and labels.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest

from controlplane.events.lifecycle import batch_counts
from controlplane.events.run_resolution import INFERRED, failure_kind
from controlplane.events.succession import over_at, replaces
from controlplane.health import terminal_status
from controlplane.health.context import context_at
from controlplane.health.thresholds import DEFAULTS
from controlplane.metrics.samples import Totals
from controlplane.model import Agent, ProgressSample, QueryStatus, QueryView, Run, Verdict
from controlplane.records import RunRow

_TERMINAL_STEPS = (
    terminal_status.retired,
    terminal_status.start_failed,
    terminal_status.ended,
    terminal_status.never_ran,
)


@dataclass(frozen=True, eq=False)
class QueryHistory:
    """The stored history of a query. `view`: the current one; sequences are in the order of time.

    `rests`: times of idle triggers by run key; `length`: the maximum number of reports in a view.
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
        """The newest run that had started by `t`."""
        place = bisect_right(self._starts, t)
        return self.runs[place - 1] if place else None

    def named_at(self, t: float) -> float:
        """When the query last took its name: at the start of its newest run, or at its first event."""
        row, failed = self.run(t), self.view.start_failed_at
        if row is not None:
            return row.run.started_at
        return failed if failed is not None and failed <= t else self.view.first_seen_at

    def status(self, t: float) -> QueryStatus | None:
        """The recorded status at `t`, if any."""
        place = bisect_right(self._changed, t)
        return self.changes[place - 1][1] if place else None

    def state(self, t: float) -> tuple[object, ...]:
        """A key that is equal for two times without an event between them."""
        row = self.run(t)
        ends = row is not None and _has_ended(row, t)
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
            ended_by=row.ended_by if row and _has_ended(row, t) else None,
            facts=row.facts if row else view.facts,
            progress=tuple(self.reports[max(0, place - self.length) : place]),
            idle_at=self._rested_at(row, t),
            status=None,
            polls=(),
            start_failed_at=_by(view.start_failed_at, t),
            retired_at=_by(view.retired_at, t),
            action=None,
        )

    def verdict(self, view: QueryView, t: float) -> Verdict:
        """The recorded verdict; where none is stored any more, one derived from the runs in the view."""
        status = self.status(t)
        if status is not None:
            return Verdict(status, "As recorded.")
        context = context_at(view, t, DEFAULTS)
        found = (verdict for step in _TERMINAL_STEPS if (verdict := step(context)) is not None)
        return next(found, Verdict(QueryStatus.RUNNING, "No other status is recorded."))

    def _agent(self, row: RunRow | None, t: float) -> Agent | None:
        agent = self.agents.get(row.run.agent) if row else None
        return replace(agent, ended_at=_by(agent.ended_at, t), outage=None) if agent else None

    def _rested_at(self, row: RunRow | None, t: float) -> float | None:
        times = self.rests.get(row.run.key, ()) if row else ()
        place = bisect_right(times, t)
        return times[place - 1] if place else None


def _by(at: float | None, t: float) -> float | None:
    return at if at is not None and at <= t else None


def _has_ended(row: RunRow, t: float) -> bool:
    """Whether the run was known to have ended at `t`. A lost run shows only when the next one has started."""
    return row.run.ended_at is not None and row.run.ended_at <= t and row.ended_by not in INFERRED


def _run_at(row: RunRow, t: float) -> Run:
    if _has_ended(row, t):
        return row.run
    return replace(row.run, ended_at=None, end=None, failure_text=None, error_class=None)


def holders_of_name(histories: Sequence[QueryHistory], t: float) -> set[str]:
    """Of queries with one name, those that held it at `t`: none that began later had replaced them."""
    known = [(h, view) for h in histories if (view := h.at(t)) is not None]
    known.sort(key=lambda pair: (pair[0].named_at(t), pair[1].query_id))
    return {
        view.query_id
        for place, (history, view) in enumerate(known, start=1)
        if not any(_replaces(later, view, history.run(t), t) for _, later in known[place:])
    }


def _replaces(later: QueryView, view: QueryView, row: RunRow | None, t: float) -> bool:
    """As in the window. When a driver was in contact is not stored: the last event of its run (`row`) stands for it."""
    over = None
    if view.run is not None and row is not None and view.agent is not None:
        apart = later.run is None or later.run.agent != view.run.agent
        seen_at = min(row.last_event_at, t) if apart else t
        over = over_at(view.run, replace(view.agent, last_seen_at=seen_at, contact_at=0.0), t)
    return replaces(later.first_seen_at, later.run, later.agent, view.run, over)


# -- counters --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CounterIncrease:
    """Amounts by which counters rose at a time."""

    at: float
    amounts: Mapping[str, float]


def counter_increases(
    history: QueryHistory,
    after: float,
    batches_at: Iterable[float],
    failed_starts: Iterable[tuple[float, str]],
) -> list[CounterIncrease]:
    """The counter increases after `after`, oldest first.

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
            # A run is known to be lost once the next one has started.
            at = later.run.started_at if later and row.ended_by == "lost" else run.ended_at
            found.append(CounterIncrease(at, {f"failures|{failed}": 1}))
    return sorted((item for item in found if item.at > after), key=lambda item: item.at)


#: Counters that batches do not increase.
ONCE = ("starts", "failures")


class CounterReplay:
    """Counters at increasing times: the current totals minus later increases.

    `place`: increases applied so far.
    """

    def __init__(self, totals: Totals, later: Sequence[CounterIncrease]):
        self._later, self.place = later, 0
        self._totals = dict(totals)
        for increase in later:
            self._add(increase, -1)
        # A 0 before the first known increase may mean "never counted"; most counters start together.
        counting = self._totals.get("batches", 0) > 0
        self._begun = {n for n, v in self._totals.items() if v > 0 or (counting and not n.startswith(ONCE))}

    def go_to(self, t: float) -> None:
        """Advance to time `t`."""
        while self.place < len(self._later) and self._later[self.place].at <= t:
            self._add(self._later[self.place], 1)
            self._begun.update(self._later[self.place].amounts)
            self.place += 1

    @property
    def totals(self) -> Totals:
        """The counters at the current time, by name."""
        return {name: value for name, value in self._totals.items() if name in self._begun}

    def _add(self, increase: CounterIncrease, sign: int) -> None:
        for name, amount in increase.amounts.items():
            if name in self._totals:
                self._totals[name] += sign * amount
