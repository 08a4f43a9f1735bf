"""What changed before a query's trouble began: starts, drivers, plan and options, versions, labels, input volume. Pure.

Computed from what is stored: status changes, runs, the comparison of each run's shape with the one before, actions, agents,
reports and baselines. Called by the API.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from controlplane.health.formatting import rows, span
from controlplane.model import Action, ActionState, Agent, ProgressSample, QueryStatus, Run

#: Changes so many seconds before the trouble count, and starts so shortly after it, whose times are another clock's.
SEARCH_SECONDS, AFTER_SECONDS = 6 * 3600.0, 60.0
#: Input of the last minutes before the trouble is compared with that of the hour before them.
INPUT_SECONDS, EARLIER_SECONDS = 600.0, 3600.0
#: A change of the input: by this factor, and in so many batches of both times.
INPUT_FACTOR, MIN_BATCHES = 1.5, 5
#: A start belongs to an action that was finished, or still under way, so shortly before or after.
ACTION_SECONDS = 60.0
TROUBLE = frozenset(
    {
        QueryStatus.FAILED,
        QueryStatus.LOST,
        QueryStatus.UNREACHABLE,
        QueryStatus.STUCK,
        QueryStatus.LAGGING,
        QueryStatus.BACKING_OFF,
        QueryStatus.BUSY,
    }
)
ON_THE_WAY = frozenset({QueryStatus.STARTING, QueryStatus.RESTARTING})


@dataclass(frozen=True)
class QueryChange:
    """A change at `at` (Unix seconds). `kind`: `start`, `driver`, `spark`, `label`, `query` or `input`."""

    at: float
    kind: str
    sentence: str


@dataclass(frozen=True)
class StartedRun:
    """A run with its agent, and the findings of its shape's comparison; None where no shape was compared."""

    run: Run
    agent: Agent | None = None
    comparison: Mapping[str, Any] | None = None


def trouble_began(changes: Iterable[Mapping[str, Any]]) -> float | None:
    """When the present trouble began, Unix seconds; None where there is none. `changes`: of the status, newest first."""
    began = None
    for change in changes:
        if change["status"] in TROUBLE:
            began = float(change["at"])
        elif change["status"] not in ON_THE_WAY:
            break
    return began


def changes_before(
    began: float, runs: Sequence[StartedRun], actions: Sequence[Action], searched: float = SEARCH_SECONDS
) -> list[QueryChange]:
    """What starts changed in the `searched` seconds before the trouble `began`, the last first. `runs`: any order."""
    ordered = sorted(runs, key=lambda each: each.run.started_at)
    found: list[QueryChange] = []
    for before, started in pairwise([None, *ordered]):
        if started is not None and 0 <= began + AFTER_SECONDS - started.run.started_at <= searched:
            found += _of_start(before, started, actions)
    return sorted(found, key=lambda change: -change.at)


def _of_start(
    before: StartedRun | None, started: StartedRun, actions: Sequence[Action]
) -> Iterator[QueryChange]:
    at = started.run.started_at
    yield QueryChange(at, "start", _start_sentence(before, started, actions))
    for finding in (started.comparison or {}).get("findings") or ():
        change = str(finding.get("change") or "").rstrip(".")
        if change:
            yield QueryChange(at, "query", f"{change[:1].upper()}{change[1:]}.")
    if (
        before is None
        or before.agent is None
        or started.agent is None
        or before.agent.agent == started.agent.agent
    ):
        return
    yield QueryChange(
        at, "driver", f"A new driver ran it: {started.agent.agent[:8]} after {before.agent.agent[:8]}."
    )
    was, now = before.agent.spark_version, started.agent.spark_version
    compared = any(f.get("rule") == "spark" for f in (started.comparison or {}).get("findings") or ())
    if was and now and was != now and not compared:
        yield QueryChange(at, "spark", f"Spark was {was} and is {now}.")
    yield from _labels(at, before.agent.labels, started.agent.labels)


def _labels(at: float, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[QueryChange]:
    for name in sorted({*was, *now}):
        if was.get(name) != now.get(name):
            sentence = f"Label {name} was {was.get(name) or 'not set'} and is {now.get(name) or 'not set'}."
            yield QueryChange(at, "label", sentence)


def _start_sentence(before: StartedRun | None, started: StartedRun, actions: Sequence[Action]) -> str:
    run = f"Run {started.run.run_id[:8]} started"
    asked = next((a for a in actions if _started_it(a, started.run.started_at)), None)
    if asked is not None:
        why = f" ({asked.request_reason})" if asked.request_reason else ""
        return f"{run}: {asked.action} requested by {asked.actor}{why}."
    if before is None:
        return f"{run}: the first that is known."
    ended = before.run.end.value if before.run.end else None
    return f"{run}; the run before {f'had {_ENDS[ended]}' if ended else 'has no known end'}."


_ENDS = {"stopped": "been stopped", "failed": "failed", "finished": "finished", "lost": "been lost"}


def _started_it(action: Action, at: float) -> bool:
    ended = math.inf if action.finished_at is None else action.finished_at
    if action.action == "stop" or action.state is ActionState.REFUSED:
        return False
    return action.requested_at - ACTION_SECONDS <= at <= ended + ACTION_SECONDS


def input_change(
    began: float, samples: Sequence[ProgressSample], baseline: tuple[float, float] | None = None
) -> QueryChange | None:
    """How the input before the trouble differs from the baseline of that hour, or else from the hour before.

    `baseline`: 10 % and 90 % quantile of rows a second. None where it does not differ, or too few batches show it.
    """
    recent = _rates(samples, began - INPUT_SECONDS, began)
    if len(recent) < MIN_BATCHES:
        return None
    now = median(recent)
    read = f"The input was {rows(now)} a second in the {span(INPUT_SECONDS)} before"
    if baseline is not None:
        low, high = baseline
        within = low / INPUT_FACTOR <= now <= high * INPUT_FACTOR
        normal = f"normal for this hour are {rows(low)} to {rows(high)}"
        return None if within else QueryChange(began, "input", f"{read}; {normal}.")
    earlier = _rates(samples, began - INPUT_SECONDS - EARLIER_SECONDS, began - INPUT_SECONDS)
    then = median(earlier) if len(earlier) >= MIN_BATCHES else 0.0
    if then <= 0 or 1 / INPUT_FACTOR <= now / then <= INPUT_FACTOR:
        return None
    sentence = f"{read}, {now / then:.2g} times the {rows(then)} a second of the hour before that."
    return QueryChange(began, "input", sentence)


def _rates(samples: Sequence[ProgressSample], start: float, end: float) -> list[float]:
    known = (s.input_rows_per_second for s in samples if start <= s.at < end)
    return [rate for rate in known if rate is not None and math.isfinite(rate)]
