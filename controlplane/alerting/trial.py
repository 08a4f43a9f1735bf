"""Send a trial notification to every integration of a receiver, and report what became of it.

The trial goes past limits and notification log: it shows whether the service accepts a message now. Where a receiver is
notified of resolved alerts, the trial is resolved at once, so that no incident stays open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alerts.errors import ReceiverError
from alerts.notify.dispatch import run_at_once
from alerts.notify.message import AlertContext, Message
from alerts.notify.reasons import Reason
from alerts.notify.receivers.base import Receiver
from alerts.notify.receivers.limits import LimitedReceiver
from alerts.state import ALERT_NAME, Alert, AlertState

TRIAL = "NotificationTrial"


@dataclass(frozen=True)
class TrialResult:
    """What became of the trial at one integration, by its name in the notification log. `error`: why it failed."""

    name: str
    error: str | None = None


def trial_message(receiver: str, actor: str, page_url: str, now: float) -> Message:
    """The message of a trial; its group key is new each time."""
    labels = {ALERT_NAME: TRIAL, "receiver": receiver, "severity": "info"}
    annotations = {
        "summary": f"Trial notification to receiver {receiver}: nothing is wrong.",
        "description": f"{actor} sent it to check that notifications arrive.",
    }
    alert = Alert(TRIAL, labels, annotations, 1.0, AlertState.FIRING, now, fired_at=now)
    url = f"{page_url}/alerts" if page_url else ""
    return Message(
        receiver=receiver,
        group_key=f'{{}}/{{trial="{now:.3f}"}}:{{receiver="{receiver}"}}',
        group_labels={ALERT_NAME: TRIAL, "receiver": receiver},
        alerts=(alert,),
        external_url=page_url,
        reason=Reason.FIRST,
        sent_at=now,
        generator_urls={alert.fingerprint: url},
        contexts={alert.fingerprint: AlertContext()},
    )


def send_trial(receivers: Sequence[Receiver], message: Message) -> tuple[TrialResult, ...]:
    """Send the message to each integration at the same time. Blocks for seconds."""
    return run_at_once(lambda receiver: _tried(receiver, message), receivers)


def _tried(receiver: Receiver, message: Message) -> TrialResult:
    inner = receiver.receiver if isinstance(receiver, LimitedReceiver) else receiver
    try:
        inner.send(message)
        if inner.sends_resolved:
            inner.send(_resolved(message))
    except ReceiverError as error:
        return TrialResult(receiver.name, str(error))
    except Exception as error:  # a defect of one integration must not hide the others
        return TrialResult(receiver.name, f"the receiver failed with {type(error).__name__}: {error}"[:300])
    return TrialResult(receiver.name)


def _resolved(message: Message) -> Message:
    over = tuple(
        replace(alert, state=AlertState.RESOLVED, resolved_at=message.sent_at) for alert in message.alerts
    )
    return replace(message, alerts=over, reason=Reason.ALL_RESOLVED)
