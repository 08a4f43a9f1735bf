"""A look at one group: told to every receiver of its name, and what becomes of the group afterwards.

Thin: all decisions are in `alerts.grouping` and `alerts.notify.stages`. The caller keeps groups and what was
told, and stores each outcome as `keep` hands it over, before the next is made. Of several receivers of one
name each has its own entry in the log; where one fails and another does not, only the first is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from alerts import grouping
from alerts.grouping import Group
from alerts.notify.reasons import Decision, NotificationState, Reason
from alerts.notify.receivers.base import Receiver
from alerts.notify.stages import NotificationContext, NotificationOutcome, flush

#: What was told last: by the key of a group and the name of a receiver.
Log = Mapping[tuple[str, str], NotificationState]


def flush_group(
    group: Group,
    log: Log,
    receivers: Mapping[str, tuple[Receiver, ...]],
    context: NotificationContext,
    now: float,
    keep: Callable[[NotificationOutcome], None],
) -> tuple[NotificationOutcome, ...]:
    """One group told to every receiver of its name; `keep` has each outcome before the next is made."""
    looks = []
    for receiver in receivers.get(group.receiver, ()):
        outcome = flush(group, receiver, log.get((group.key, receiver.name)), context, now)
        keep(outcome)
        looks.append(outcome)
    if not looks:
        looks.append(_no_receiver(group, now))
        keep(looks[0])
    return tuple(looks)


def _no_receiver(group: Group, now: float) -> NotificationOutcome:
    words = f"the receiver {group.receiver!r} tells nobody"
    return NotificationOutcome(group, group.receiver, now, Decision(Reason.NONE, words))


def after_flush(
    group: Group, seen: Group, looks: tuple[NotificationOutcome, ...], now: float
) -> Group | None:
    """The group after it was looked at as `seen`; it may have changed since. None: nothing is left in it."""
    if any(outcome.retries for outcome in looks):
        return grouping.after_failure(group, now)
    return grouping.after_delivery(group, seen.alerts, now)
