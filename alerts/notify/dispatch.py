"""One round of notification: the groups that are due, each told to every receiver of its name.

Thin: all decisions are in `alerts.grouping` and `alerts.notify.stages`. The caller keeps groups and what was
told, and stores each outcome as `keep` hands it over, before the next is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from alerts import grouping
from alerts.grouping import Group, Groups
from alerts.notify.reasons import Decision, Reason, Told
from alerts.notify.receivers.base import Receiver
from alerts.notify.stages import Outcome, Surroundings, flush

#: What was told last: by the key of a group and the name of a receiver.
Log = Mapping[tuple[str, str], Told]


@dataclass(frozen=True)
class Round:
    """The groups after a round, and what became of each look, in the order of the looks."""

    groups: Groups
    outcomes: tuple[Outcome, ...]


def dispatch(
    groups: Groups,
    log: Log,
    receivers: Mapping[str, tuple[Receiver, ...]],
    around: Surroundings,
    now: float,
    keep: Callable[[Outcome], None] = lambda outcome: None,
) -> Round:
    """Looks at every group that is due at `now`. Blocks while receivers do.

    Of several receivers of one name each has its own entry in the log; where one fails and another does
    not, only the first is tried again.
    """
    after = dict(groups)
    outcomes: list[Outcome] = []
    for group in grouping.due(groups, now):
        looks = look_at(group, log, receivers, around, now, keep)
        outcomes.extend(looks)
        left = after_look(group, group, looks, now)
        if left is None:
            del after[group.name]
        else:
            after[group.name] = left
    return Round(after, tuple(outcomes))


def look_at(
    group: Group,
    log: Log,
    receivers: Mapping[str, tuple[Receiver, ...]],
    around: Surroundings,
    now: float,
    keep: Callable[[Outcome], None],
) -> tuple[Outcome, ...]:
    """One group told to every receiver of its name; `keep` has each outcome before the next is made."""
    looks = []
    for receiver in receivers.get(group.receiver, ()):
        outcome = flush(group, receiver, log.get((group.key, receiver.name)), around, now)
        keep(outcome)
        looks.append(outcome)
    if not looks:
        looks.append(_nobody(group, now))
        keep(looks[0])
    return tuple(looks)


def _nobody(group: Group, now: float) -> Outcome:
    words = f"the receiver {group.receiver!r} tells nobody"
    return Outcome(group, group.receiver, now, Decision(Reason.NONE, words))


def after_look(group: Group, seen: Group, looks: tuple[Outcome, ...], now: float) -> Group | None:
    """The group after it was looked at as `seen`; it may have changed since. None: nothing is left in it."""
    if any(outcome.retries for outcome in looks):
        return grouping.failed(group, now)
    return grouping.delivered(group, seen.alerts, now)
