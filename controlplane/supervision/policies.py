"""Policies as values: which queries they match, when they restart one, and how often. Pure.

Read by `controlplane.supervision.policy_file`. The first policy whose matchers a query meets holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from alerts.durations import format_duration
from alerts.matching.labels import Labels, Matcher
from alerts.time_intervals import TimeInterval
from controlplane.model import QueryStatus

DEFAULT_STATUSES = (QueryStatus.FAILED, QueryStatus.LOST, QueryStatus.STUCK)

#: No windows: at any time.
ANY_TIME = TimeInterval("windows")


class PolicyMode(StrEnum):
    """Whether decisions are carried out."""

    OBSERVE = "observe"
    ACT = "act"


class RetryClass(StrEnum):
    """Whether another try helps: at once, after a while, once, or never. `unknown` gets one careful try."""

    NOW = "now"
    LATER = "later"
    ONCE = "once"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class StatusTrigger:
    """A query with this status for at least `seconds` is in trouble."""

    status: QueryStatus
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.status} for {format_duration(self.seconds)}" if self.seconds else str(self.status)


@dataclass(frozen=True)
class RetryDelay:
    """Seconds before a restart: `initial` × `factor` for each earlier one, at most `longest`, ± `jitter` as a ratio."""

    initial: float = 5.0
    factor: float = 2.0
    longest: float = 600.0
    jitter: float = 0.2


@dataclass(frozen=True)
class RestartBudget:
    """At most `restarts` in `seconds`; a query that was healthy for `reset_seconds` begins anew."""

    restarts: int = 5
    seconds: float = 3600.0
    reset_seconds: float = 1800.0


@dataclass(frozen=True)
class ParallelLimit:
    """Restarts in progress at once."""

    app: int = 1
    fleet: int = 10


@dataclass(frozen=True)
class RestartRule:
    """When and how a policy restarts. `checkpoint`: the doctor's verdict that it needs, `not_broken` or `ok`.

    `windows`: restarts only inside one of them; empty: at any time. `in_driver`: a failed query's driver restarts it.
    `rollback`: an application whose new version crashes again and again gets the last healthy one.
    """

    triggers: tuple[StatusTrigger, ...] = tuple(map(StatusTrigger, DEFAULT_STATUSES))
    delay: RetryDelay = RetryDelay()
    budget: RestartBudget = RestartBudget()
    drain: bool = False
    parallel: ParallelLimit = ParallelLimit()
    windows: TimeInterval = ANY_TIME
    checkpoint: str = "not_broken"
    in_driver: bool = False
    rollback: bool = False

    def trigger_of(self, status: QueryStatus) -> StatusTrigger | None:
        """The trigger for this status, if there is one."""
        return next((trigger for trigger in self.triggers if trigger.status is status), None)


@dataclass(frozen=True)
class Policy:
    """A policy; `line`: its place in the file."""

    name: str
    matchers: tuple[Matcher, ...] = ()
    mode: PolicyMode = PolicyMode.OBSERVE
    restart: RestartRule = RestartRule()
    line: int = 0

    @property
    def acts(self) -> bool:
        """Whether its decisions are carried out."""
        return self.mode is PolicyMode.ACT

    def mismatch(self, labels: Labels) -> Matcher | None:
        """The first matcher that the labels do not meet; None if the policy matches."""
        return next((matcher for matcher in self.matchers if not matcher.matches(labels)), None)


@dataclass(frozen=True)
class PolicyMatch:
    """Whether a policy matches a query, and why, as a sentence."""

    policy: Policy
    matches: bool
    why: str


@dataclass(frozen=True)
class PolicySet:
    """Policies in the order of their file. `conditions`: error condition → retry class, instead of the catalogue's."""

    policies: tuple[Policy, ...] = ()
    conditions: Mapping[str, RetryClass] = field(default_factory=dict)

    def of(self, labels: Labels) -> Policy | None:
        """The policy that holds for a query with these labels."""
        return next((policy for policy in self.policies if policy.mismatch(labels) is None), None)

    def explain(self, labels: Labels) -> Iterator[PolicyMatch]:
        """Every policy up to the one that holds, in order, with the reason."""
        for policy in self.policies:
            wrong = policy.mismatch(labels)
            if wrong is not None:
                has = labels.get(wrong.name)
                value = f"{wrong.name} is {has!r}" if has else f"the query has no label {wrong.name}"
                yield PolicyMatch(policy, False, f"{wrong} does not match: {value}.")
                continue
            met = ", ".join(map(str, policy.matchers))
            yield PolicyMatch(policy, True, f"The query meets {met}." if met else "It matches every query.")
            return
