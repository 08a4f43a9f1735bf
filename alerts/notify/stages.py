"""Notification stages, from a due alert group to a delivered message.

`flush` runs the stages on one frozen value: inhibit, silence, keep the schedule, deduplicate, compose, send, record. The state is
recorded last, so that a crash between sending and recording leads to a second message, never to none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from alerts import acknowledgements, silences
from alerts.acknowledgements import Acknowledgement
from alerts.errors import ReceiverError
from alerts.grouping import Group
from alerts.inhibition import Inhibitor
from alerts.notify.message import AlertContext, Message, firing_first
from alerts.notify.reasons import Decision, NotificationState, Reason, decide
from alerts.notify.receivers.base import Receiver
from alerts.silences import Silence
from alerts.state import Alert, AlertState

#: Precedes the error in the explanation of a failed delivery.
DELIVERY_FAILED = "delivery failed: "


@dataclass(frozen=True)
class Muted:
    """Why an alert is muted: ids of silences, fingerprints of inhibiting alerts, or names of time intervals."""

    by: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class NotificationOutcome:
    """Outcome of a group's flush for one receiver.

    `state`: the new notification state; None: unchanged. Neither `sent` nor `error` is set where no notification
    was due; `explanation` always states the reason.
    """

    group: Group
    receiver: str
    at: float
    decision: Decision
    muted: Mapping[str, Muted] = field(default_factory=dict)
    message: Message | None = None
    sent: bool = False
    error: ReceiverError | None = None
    state: NotificationState | None = None

    @property
    def explanation(self) -> str:
        if self.error is not None:
            return f"{self.decision.explanation}; {DELIVERY_FAILED}{self.error}"
        kept = f"; {len(self.muted)} muted" if self.muted else ""
        return self.decision.explanation + kept

    @property
    def retries(self) -> bool:
        """Whether the same is to be tried again soon."""
        return self.error is not None and self.error.retryable


@dataclass(frozen=True)
class NotificationContext:
    """What the steps ask besides the group. `generator_url`: where an alert can be looked at.

    `alert_context`: further links of an alert, and facts that explain it; asked only for alerts that are sent.
    """

    inhibitor: Inhibitor
    silences: Sequence[Silence] = ()
    acknowledgements: Sequence[Acknowledgement] = ()
    external_url: str = ""
    generator_url: Callable[[Alert], str] = lambda alert: ""
    alert_context: Callable[[Alert], AlertContext] = lambda alert: AlertContext()


Stage = Callable[[NotificationOutcome], NotificationOutcome]


def flush(
    group: Group,
    receiver: Receiver,
    last: NotificationState | None,
    context: NotificationContext,
    now: float,
) -> NotificationOutcome:
    """Process one group at `now` and notify the receiver if a notification is due.

    `last`: the receiver's last notification of the group. Blocks while the receiver does.
    """
    outcome = NotificationOutcome(group, receiver.name, now, Decision(Reason.NONE, "not evaluated"))
    for step in (
        lambda o: inhibit(o, context.inhibitor),
        lambda o: silence(o, context.silences),
        keep_schedule,
        lambda o: deduplicate(o, last, receiver.sends_resolved, context.acknowledgements),
        lambda o: compose(o, receiver.sends_resolved, context),
        lambda o: send(o, receiver),
        record,
    ):
        outcome = step(outcome)
    return outcome


def inhibit(outcome: NotificationOutcome, inhibitor: Inhibitor) -> NotificationOutcome:
    """Mute alerts that a firing alert inhibits."""
    found = {key: inhibitor.inhibiting(alert.labels) for key, alert in _unmuted(outcome)}
    return _mute(outcome, "inhibition", found)


def silence(outcome: NotificationOutcome, active: Sequence[Silence]) -> NotificationOutcome:
    """Mute silenced alerts."""
    found = {key: silences.silenced_by(active, alert.labels, outcome.at) for key, alert in _unmuted(outcome)}
    return _mute(outcome, "silence", found)


def keep_schedule(outcome: NotificationOutcome) -> NotificationOutcome:
    """Mute all alerts outside the times at which the route notifies."""
    names = outcome.group.schedule.muting(outcome.at)
    return _mute(outcome, "time interval", {key: names for key, _ in _unmuted(outcome)})


def _mute(outcome: NotificationOutcome, by: str, found: Mapping[str, tuple[str, ...]]) -> NotificationOutcome:
    muted = {key: Muted(by, ids) for key, ids in found.items() if ids}
    return replace(outcome, muted={**outcome.muted, **muted})


def _unmuted(outcome: NotificationOutcome) -> list[tuple[str, Alert]]:
    """The alerts of the group that are not muted, by fingerprint."""
    return [(key, alert) for key, alert in outcome.group.alerts.items() if key not in outcome.muted]


def _of(outcome: NotificationOutcome, state: AlertState) -> frozenset[str]:
    return frozenset(key for key, alert in _unmuted(outcome) if alert.state is state)


def deduplicate(
    outcome: NotificationOutcome,
    last: NotificationState | None,
    sends_resolved: bool,
    acks: Sequence[Acknowledgement],
) -> NotificationOutcome:
    """Decide whether a notification is due."""
    unmuted = _unmuted(outcome)
    if not unmuted:
        explanation = _muting(outcome) if outcome.muted else "the group has no alerts"
        return replace(outcome, decision=Decision(Reason.NONE, explanation))
    decision = decide(
        last,
        _of(outcome, AlertState.FIRING),
        _of(outcome, AlertState.RESOLVED),
        outcome.group.timing.repeat_interval,
        outcome.at,
        sends_resolved,
        [key for key, alert in unmuted if acknowledgements.find(alert, acks)],
    )
    return replace(outcome, decision=decision)


def _muting(outcome: NotificationOutcome) -> str:
    names = [name for muted in outcome.muted.values() if muted.by == "time interval" for name in muted.ids]
    during = f" by the time interval {', '.join(dict.fromkeys(names))}" if names else ""
    return f"all alerts are muted{during}"


def compose(
    outcome: NotificationOutcome, sends_resolved: bool, context: NotificationContext
) -> NotificationOutcome:
    """Compose the message, where a notification is due."""
    if not outcome.decision.notifies:
        return outcome
    alerts = [a for _, a in _unmuted(outcome) if sends_resolved or a.state is AlertState.FIRING]
    if not alerts:
        return outcome
    message = Message(
        receiver=outcome.group.receiver,
        group_key=outcome.group.key,
        group_labels=outcome.group.labels,
        alerts=firing_first(alerts),
        external_url=context.external_url,
        reason=outcome.decision.reason,
        sent_at=outcome.at,
        generator_urls={alert.fingerprint: context.generator_url(alert) for alert in alerts},
        contexts={alert.fingerprint: context.alert_context(alert) for alert in alerts},
    )
    return replace(outcome, message=message)


def send(outcome: NotificationOutcome, receiver: Receiver) -> NotificationOutcome:
    """Send the message. A failure is stored in the outcome, not raised."""
    if outcome.message is None:
        return outcome
    try:
        receiver.send(outcome.message)
    except ReceiverError as error:
        return replace(outcome, error=error)
    except Exception as error:  # a defect of one receiver must not affect the others
        reason = f"the receiver failed with {type(error).__name__}: {error}"
        return replace(outcome, error=ReceiverError(reason[:300], retryable=True))
    return replace(outcome, sent=True)


def record(outcome: NotificationOutcome) -> NotificationOutcome:
    """Set the new notification state; unchanged where no notification was due or delivery failed.

    A rejected message is sent again with the group's next flush, so a corrected URL or token takes effect.
    """
    if not outcome.decision.notifies or outcome.error is not None:
        return outcome
    state = NotificationState(_of(outcome, AlertState.FIRING), _of(outcome, AlertState.RESOLVED), outcome.at)
    return replace(outcome, state=state)
