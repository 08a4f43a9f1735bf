"""Decide whether to notify a receiver of an alert group, and why.

The server stores the last notification as a `NotificationState` for each group and receiver. The values of `Reason`
are those of Alertmanager's webhook (since 0.32).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a group is notified; NONE: it is not."""

    NONE = "none"
    FIRST = "first notification"
    NEW = "new alerts added"
    SOME_RESOLVED = "some alerts resolved"
    ALL_RESOLVED = "all alerts resolved"
    REPEAT = "repeat interval elapsed"


@dataclass(frozen=True)
class NotificationState:
    """The last notification of a group to a receiver: fingerprints, and when (Unix seconds)."""

    firing: frozenset[str]
    resolved: frozenset[str]
    at: float


@dataclass(frozen=True)
class Decision:
    """Whether to notify, with an explanation."""

    reason: Reason
    explanation: str

    @property
    def notifies(self) -> bool:
        """Whether a notification is due."""
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
    """Decide whether to notify a receiver of a group now. Takes fingerprints of alerts that are not muted.

    `acknowledged`: acknowledged firing alerts; a group is not repeated while all of them are acknowledged.
    """
    fires, ended = frozenset(firing), frozenset(resolved)
    if last is None:
        if fires:
            return Decision(Reason.FIRST, f"{_alerts(fires)}; no notification sent yet")
        return Decision(Reason.NONE, "no alert fires, and none was notified")
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
        return Decision(Reason.ALL_RESOLVED, "no alert fires any more")
    return Decision(Reason.NONE, "no alert fires, and that was notified")


def _repeated(
    last: NotificationState,
    fires: frozenset[str],
    repeat_interval: float,
    now: float,
    acknowledged: frozenset[str],
) -> Decision:
    age = now - last.at
    if age <= repeat_interval:
        left = f"it repeats after {repeat_interval:g} s"
        return Decision(Reason.NONE, f"notified {age:.0f} s ago, nothing new; {left}")
    if fires <= acknowledged:
        return Decision(Reason.NONE, "nothing new, and all firing alerts are acknowledged")
    return Decision(Reason.REPEAT, f"still firing {age:.0f} s after the last message")


def _alerts(fingerprints: frozenset[str]) -> str:
    return "1 alert fires" if len(fingerprints) == 1 else f"{len(fingerprints)} alerts fire"
