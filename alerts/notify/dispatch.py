"""Flush an alert group to every receiver of its route, and compute the group's next state.

All decisions are in `alerts.grouping` and `alerts.notify.stages`. The caller holds the groups and notification
states, and stores each outcome through `keep` before the next receiver runs. Each receiver has its own state: where
one fails, only that one is retried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from alerts import grouping
from alerts.grouping import Group
from alerts.notify.reasons import Decision, NotificationState, Reason
from alerts.notify.receivers.base import Receiver
from alerts.notify.stages import NotificationContext, NotificationOutcome, flush

#: Last notification state by group key and receiver name.
Log = Mapping[tuple[str, str], NotificationState]


def flush_group(
    group: Group,
    log: Log,
    receivers: Mapping[str, tuple[Receiver, ...]],
    context: NotificationContext,
    now: float,
    keep: Callable[[NotificationOutcome], None],
) -> tuple[NotificationOutcome, ...]:
    """Notify every receiver of a group; `keep` gets each outcome before the next receiver runs."""
    outcomes = []
    for receiver in receivers.get(group.receiver, ()):
        outcome = flush(group, receiver, log.get((group.key, receiver.name)), context, now)
        keep(outcome)
        outcomes.append(outcome)
    if not outcomes:
        outcomes.append(_no_receiver(group, now))
        keep(outcomes[0])
    return tuple(outcomes)


def _no_receiver(group: Group, now: float) -> NotificationOutcome:
    explanation = f"receiver {group.receiver!r} has no webhook configured"
    return NotificationOutcome(group, group.receiver, now, Decision(Reason.NONE, explanation))


def after_flush(
    group: Group, seen: Group, outcomes: tuple[NotificationOutcome, ...], now: float
) -> Group | None:
    """The group after a flush of its state `seen`; it may have changed since. None: it has no alerts left."""
    if any(outcome.retries for outcome in outcomes):
        return grouping.after_failure(group, now)
    return grouping.after_delivery(group, seen.alerts, now)
