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
        looks = tuple(_looks(group, log, receivers, around, now, keep))
        outcomes.extend(looks)
        left = _after(group, looks, now)
        if left is None:
            del after[group.name]
        else:
            after[group.name] = left
    return Round(after, tuple(outcomes))


def _looks(
    group: Group,
    log: Log,
    receivers: Mapping[str, tuple[Receiver, ...]],
    around: Surroundings,
    now: float,
    keep: Callable[[Outcome], None],
) -> list[Outcome]:
    told = receivers.get(group.receiver, ())
    if not told:
        return [_nobody(group, now)]
    looks = []
    for receiver in told:
        outcome = flush(group, receiver, log.get((group.key, receiver.name)), around, now)
        keep(outcome)
        looks.append(outcome)
    return looks


def _nobody(group: Group, now: float) -> Outcome:
    words = f"the receiver {group.receiver!r} tells nobody"
    return Outcome(group, group.receiver, now, Decision(Reason.NONE, words))


def _after(group: Group, looks: tuple[Outcome, ...], now: float) -> Group | None:
    if any(outcome.retries for outcome in looks):
        return grouping.failed(group, now)
    return grouping.delivered(group, group.alerts, now)
