"""What a driver may decide itself: the document of restart leases for its queries. Pure.

`controlplane.supervision.driver_leases` sends it; `listeners.commands.restart_leases` decides by it. A query is granted
where its policy has `in_driver`, the query runs, and there is no reason against a restart that the driver cannot know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from controlplane.actions import guards
from controlplane.health import failure_catalogue
from controlplane.health.checkpoint_verdict import current
from controlplane.model import QueryStatus, QueryView
from controlplane.supervision import retries
from controlplane.supervision.policies import Policy, RetryClass
from controlplane.supervision_model import DesiredState, LedgerEntry

#: How long a lease holds, and how often it is renewed.
LEASE_SECONDS, RENEW_SECONDS = 900.0, 300.0
BY_DRIVER = "driver"
Grant = Mapping[str, Any]


def takes_leases(info: Mapping[str, Any]) -> bool:
    """Whether the agent with this `AgentRow.info` can restart queries itself."""
    return bool((info.get("app_started") or {}).get("leases"))


def may_grant(view: QueryView, policy: Policy | None) -> bool:
    """Whether the query's driver may decide about its next failure."""
    if policy is None or not policy.restart.in_driver or view.agent is None or view.run is None:
        return False
    rule, trigger = policy.restart, policy.restart.trigger_of(QueryStatus.FAILED)
    wanted = view.retired_at is None and view.supervised.state is DesiredState.RUNNING
    free = (view.action is None or view.action.state.final) and view.supervised.hold is None
    free = free and view.supervised.incident is None
    return (
        wanted
        and free
        and trigger is not None
        and trigger.seconds == 0
        and not rule.windows.periods
        and rule.checkpoint == "not_broken"
        and view.agent.actions == "all"
        and view.facts.restart != "needs_factory"
        and len(view.writers) <= 1
        and view.change is None
        and guards.predicted_failure(current(view)) is None
    )


def grant(view: QueryView, policy: Policy, history: Sequence[LedgerEntry], version: int, now: float) -> Grant:
    """The lease of one query: what is left of the budget, and the back-off. `seen`: the last restart counted in it."""
    desired = view.supervised.desired
    person_at = desired.at if desired is not None and desired.state is DesiredState.RUNNING else 0.0
    rule, agent = policy.restart, view.agent
    counted = retries.counted(retries.restarts_of(history, policy.mode), rule.budget, now, person_at)
    seen = [int(e.inputs["number"]) for e in history if _is_of(e, agent.agent if agent else "")]
    lease = view.supervised.lease
    return {
        "policy": policy.name,
        "mode": policy.mode.value,
        "version": version,
        "lease": lease.number if lease is not None else 0,
        "left": max(0, rule.budget.restarts - retries.spent(counted, rule.budget, now)),
        "attempts": len(counted),
        "seen": max(seen, default=0),
        "initial": rule.delay.initial,
        "factor": rule.delay.factor,
        "longest": rule.delay.longest,
        "jitter": rule.delay.jitter,
    }


def _is_of(entry: LedgerEntry, agent: str) -> bool:
    return entry.inputs.get("by") == BY_DRIVER and entry.inputs.get("agent") == agent


@lru_cache(maxsize=8)
def _names(overrides: tuple[tuple[str, RetryClass], ...]) -> Mapping[str, Any]:
    classes = {name: rule.retry for rule in failure_catalogue.RULES if not rule.vague for name in rule.names}
    return {"names": {**classes, **{name: found.value for name, found in overrides}}, "patterns": PATTERNS}


PATTERNS = [[expression.pattern, kind] for expression, kind in failure_catalogue.PATTERNS]


def retry_names(overrides: Mapping[str, RetryClass]) -> Mapping[str, Any]:
    """The classes of failures for the driver: the catalogue's without wrappers, and those of the policies' file."""
    return _names(tuple(sorted(overrides.items())))
