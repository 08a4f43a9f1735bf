"""Flush an alert group to every receiver of its route, and compute the group's next state.

All decisions are in `alerts.grouping` and `alerts.notify.stages`. The caller holds the groups and notification
states, and stores each outcome through `keep`. The receivers of a group run at the same time, so that a slow one delays
no other. Each has its own state: where one fails, only that one is retried.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from alerts import grouping
from alerts.grouping import Group
from alerts.notify.reasons import Decision, NotificationState, Reason
from alerts.notify.receivers.base import Receiver
from alerts.notify.stages import NotificationContext, NotificationOutcome, flush

T = TypeVar("T")
R = TypeVar("R")
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
    """Notify every receiver of a group, each in a thread of its own; `keep` gets each outcome when it is there."""

    def notify(receiver: Receiver) -> NotificationOutcome:
        outcome = flush(group, receiver, log.get((group.key, receiver.name)), context, now)
        keep(outcome)
        return outcome

    found = receivers.get(group.receiver, ())
    if not found:
        outcome = _no_receiver(group, now)
        keep(outcome)
        return (outcome,)
    return run_at_once(notify, found)


def run_at_once(work: Callable[[T], R], items: Sequence[T]) -> tuple[R, ...]:
    """The results of `work` for each item, each in a thread of its own; raises the first error.

    The threads are daemons: a receiver that hangs must not keep the process from ending.
    """
    if len(items) == 1:
        return (work(items[0]),)
    results: dict[int, R] = {}
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            results[number] = work(items[number])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,), name="notify", daemon=True) for n in range(len(items))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return tuple(results[number] for number in range(len(items)))


def _no_receiver(group: Group, now: float) -> NotificationOutcome:
    explanation = f"receiver {group.receiver!r} has no integration configured"
    return NotificationOutcome(group, group.receiver, now, Decision(Reason.NONE, explanation))


def after_flush(
    group: Group, seen: Group, outcomes: tuple[NotificationOutcome, ...], now: float
) -> Group | None:
    """The group after a flush of its state `seen`; it may have changed since. None: it has no alerts left."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None and outcome.retries]
    if failed:
        # The receiver that can be tried first decides; the others refuse until their time has come.
        return grouping.after_failure(group, now, min(error.retry_after or 0.0 for error in failed))
    return grouping.after_delivery(group, seen.alerts, now)
