"""Whether notifications reach anybody: receivers of the routes, their webhooks, and deliveries that fail.

`alert_queries` calls it with the loaded configuration and the notifier's failures; API, dashboard and command line show
the problem and how to solve it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alerts.routing import walk
from controlplane.alerting.alertmanager_push import AlertmanagerStatus
from controlplane.alerting.rulebook import Rulebook

HOW_TO_CONFIGURE = (
    "Start the server with --webhook URL (one URL for every notification), or with --notify FILE (routes and "
    "receivers, an Alertmanager configuration)."
)


@dataclass(frozen=True)
class DeliveryFailure:
    """A receiver's last delivery failed. `since`: first failure after the last success, Unix seconds."""

    since: float
    error: str


@dataclass(frozen=True)
class IntegrationStatus:
    """One webhook of a receiver, by its name in the notification log."""

    name: str
    failure: DeliveryFailure | None = None


@dataclass(frozen=True)
class ReceiverStatus:
    """A configured receiver. `routed`: a route leads to it. Without integrations it delivers nothing."""

    name: str
    routed: bool
    integrations: tuple[IntegrationStatus, ...] = ()


@dataclass(frozen=True)
class DeliveryProblem:
    """Why alerts are not delivered, and how to change it; both are sentences."""

    summary: str
    remedy: str


def receivers(book: Rulebook, failures: Mapping[str, DeliveryFailure]) -> tuple[ReceiverStatus, ...]:
    """Every configured receiver. `failures`: by integration."""
    routed = {route.receiver for route in walk(book.config.route)}
    return tuple(
        ReceiverStatus(
            name,
            name in routed,
            tuple(IntegrationStatus(r.name, failures.get(r.name)) for r in book.receivers.get(name, ())),
        )
        for name in book.config.receivers
    )


def problem(
    book: Rulebook,
    failures: Mapping[str, DeliveryFailure],
    alertmanagers: Sequence[AlertmanagerStatus] = (),
) -> DeliveryProblem | None:
    """The reason why nobody is notified, or why a receiver is not; None where deliveries work.

    A route to a receiver without webhooks is no problem while another receiver has one: such a receiver discards
    alerts on purpose, as in Alertmanager.
    """
    routed = [receiver for receiver in receivers(book, failures) if receiver.routed]
    integrations = [integration for receiver in routed for integration in receiver.integrations]
    if any(item.error is not None for item in alertmanagers):
        return _unreachable(alertmanagers, bool(integrations))
    if not integrations and not alertmanagers:
        return DeliveryProblem(_no_integration([receiver.name for receiver in routed]), _configure(book))
    failed = {i.name: i.failure for i in integrations if i.failure is not None}
    if not failed:
        return None
    name, failure = min(failed.items(), key=lambda item: item[1].since)
    others = f" ({len(failed) - 1} more receivers fail)" if len(failed) > 1 else ""
    return DeliveryProblem(
        f"The last delivery to {name} failed: {failure.error}{others}",
        f"Alerts that are routed to {name} reach nobody until a delivery succeeds. Check its URL and its network.",
    )


def _unreachable(alertmanagers: Sequence[AlertmanagerStatus], has_own: bool) -> DeliveryProblem:
    failed = [item for item in alertmanagers if item.error is not None]
    others = f" ({len(failed) - 1} more Alertmanagers fail)" if len(failed) > 1 else ""
    summary = f"Alerts cannot be sent to the Alertmanager {failed[0].name}: {failed[0].error}{others}"
    if has_own or len(failed) < len(alertmanagers):
        return DeliveryProblem(
            summary, "Alerts are still delivered by the other receivers and Alertmanagers."
        )
    return DeliveryProblem(summary, "Alerts reach nobody until it answers. Check its URL and its network.")


def _no_integration(names: list[str]) -> str:
    listed = ", ".join(sorted(names))
    subject = f"receiver {listed} has" if len(names) == 1 else f"receivers {listed} have"
    return f"Nobody is notified of alerts: the {subject} no integration"


def _configure(book: Rulebook) -> str:
    if book.notify is None:
        return HOW_TO_CONFIGURE
    added = "Add an integration, for example webhook_configs or slack_configs, to a receiver"
    return f"{added} in {book.notify}. The server reloads the file by itself."
