"""Should a group be told now, and why; one place for all reasons, for log, API and page.

What was told last is kept by the server as a `NotificationState` for each group and receiver. The words of `Reason`
are those of Alertmanager's webhook (since its 0.32).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a group is told; NONE: it is not."""

    NONE = "none"
    FIRST = "first notification"
    NEW = "new alerts added"
    SOME_RESOLVED = "some alerts resolved"
    ALL_RESOLVED = "all alerts resolved"
    REPEAT = "repeat interval elapsed"


@dataclass(frozen=True)
class NotificationState:
    """What a receiver was last told of a group: fingerprints, and when (Unix seconds)."""

    firing: frozenset[str]
    resolved: frozenset[str]
    at: float


@dataclass(frozen=True)
class Decision:
    """Whether to tell, and one sentence that says why or why not."""

    reason: Reason
    explanation: str

    @property
    def notifies(self) -> bool:
        return self.reason is not Reason.NONE


def decide(
    last: NotificationState | None,
    firing: Iterable[str],
    resolved: Iterable[str],
    repeat_interval: float,
    now: float,
    sends_resolved: bool = True,
    acknowledged: Iterable[str] = (),
) -> Decision:
    """Whether a receiver is to be told of a group now. Fingerprints, without those that are muted.

    `acknowledged`: of those that fire; a group is not repeated while somebody works on all of it.
    """
    fires, ended = frozenset(firing), frozenset(resolved)
    if last is None:
        if fires:
            return Decision(Reason.FIRST, f"{_alerts(fires)}, and nobody was told yet")
        return Decision(Reason.NONE, "nothing fires, and nobody was told that it did")
    if new := fires - last.firing:
        reason = Reason.NEW if last.firing else Reason.FIRST
        return Decision(reason, f"{_alerts(new)} since the last message")
    if not fires:
        return _all_over(last)
    if sends_resolved and (over := ended - last.resolved):
        return Decision(Reason.SOME_RESOLVED, f"{len(over)} resolved since the last message")
    return _repeated(last, fires, repeat_interval, now, frozenset(acknowledged))


def _all_over(last: NotificationState) -> Decision:
    if last.firing:
        return Decision(Reason.ALL_RESOLVED, "nothing fires any more")
    return Decision(Reason.NONE, "nothing fires, and that was told")


def _repeated(
    last: NotificationState,
    fires: frozenset[str],
    repeat_interval: float,
    now: float,
    acknowledged: frozenset[str],
) -> Decision:
    age = now - last.at
    if age <= repeat_interval:
        left = f"it is repeated after {repeat_interval:g} s"
        return Decision(Reason.NONE, f"told {age:.0f} s ago, nothing new; {left}")
    if fires <= acknowledged:
        return Decision(Reason.NONE, "nothing new, and somebody works on it")
    return Decision(Reason.REPEAT, f"it still fires, {age:.0f} s after the last message")


def _alerts(fingerprints: frozenset[str]) -> str:
    return "1 alert fires" if len(fingerprints) == 1 else f"{len(fingerprints)} alerts fire"
