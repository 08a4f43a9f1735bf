"""What earlier restarts mean for the next one: its delay, the budget that is left, whether one helped. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from controlplane.model import Failure
from controlplane.supervision.policies import RestartBudget, RetryClass, RetryDelay
from controlplane.supervision_model import DecisionKind, DecisionOutcome, LedgerEntry
from listeners.protocol.restart_rules import restart_delay

#: The least delay where another try helps only after a while: a throttled service needs rest.
LATER_SECONDS = 60.0
_HEALTHY = (DecisionOutcome.RECOVERED, DecisionOutcome.RECOVERED_WITHOUT_US)


def retry_class(failure: Failure, overrides: Mapping[str, RetryClass]) -> RetryClass:
    """Whether another try helps: by the file's `conditions`, else by the catalogue of failures.

    An override of a condition also holds for its sub-conditions. A disallowed change of the query is never retried.
    """
    if failure.change is not None:
        return RetryClass.NEVER
    for name in (failure.condition, failure.kind):
        if name and (found := overrides.get(name) or overrides.get(name.partition(".")[0])):
            return found
    return RetryClass.UNKNOWN if failure.kind == "unknown" else RetryClass(failure.retry)


def restarts_of(history: Sequence[LedgerEntry], mode: str) -> list[LedgerEntry]:
    """The restarts in a query's history, oldest first: carried out in mode `act`, only considered in `observe`."""
    return [
        e
        for e in history
        if e.decision is DecisionKind.RESTART and e.mode == mode and (e.acted or mode != "act")
    ]


def counted(
    restarts: Sequence[LedgerEntry], budget: RestartBudget, trouble_since: float, person_at: float
) -> list[LedgerEntry]:
    """The restarts since the query was last healthy for long enough, or a person last asked for it to run."""
    kept = list(restarts)
    troubles = [*(entry.trouble_since for entry in kept), trouble_since]
    for index, (_, next_trouble) in reversed(list(enumerate(pairwise(troubles)))):
        entry = kept[index]
        healthy = next_trouble - entry.outcome_at if entry.outcome in _HEALTHY and entry.outcome_at else 0.0
        if healthy >= budget.reset_seconds or entry.at < person_at:
            return kept[index + 1 :]
    return kept


def delay(rule: RetryDelay, attempts: int, seed: str, retry: RetryClass) -> float:
    """Seconds from the trouble to the restart after `attempts` earlier ones. `seed` fixes the jitter."""
    least = LATER_SECONDS if retry is RetryClass.LATER else 0.0
    return restart_delay(rule.initial, rule.factor, rule.longest, rule.jitter, attempts, seed, least)


def spent(restarts: Sequence[LedgerEntry], budget: RestartBudget, now: float) -> int:
    """Number of restarts within the budget's window."""
    return sum(entry.at > now - budget.seconds for entry in restarts)


def failed_before(restarts: Sequence[LedgerEntry], condition: str) -> LedgerEntry | None:
    """The last restart after a failure with this condition, if the query failed again after it."""
    last = next((entry for entry in reversed(restarts) if entry.condition == condition), None)
    return last if last is not None and last.outcome is DecisionOutcome.FAILED_AGAIN else None
