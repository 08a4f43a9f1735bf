"""Queries and commands on alerts: list them with their silences and inhibitions, silence and acknowledge them.

The API's entry to this package (`plane.alerts`). A silence or an acknowledgement is stored with its author in the
audit log before it takes effect.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from sqlalchemy.engine import Connection

from alerts import acknowledgements, routing, silences
from alerts.grouping import Group
from alerts.inhibition import Inhibitor
from alerts.matching.labels import Labels
from alerts.notify.config import Config
from alerts.silences import Silence, SilenceState
from alerts.state import Alert, AlertState
from controlplane.alerting import delivery
from controlplane.alerting.alertmanager_push import AlertmanagerStatus
from controlplane.alerting.delivery import DeliveryProblem, ReceiverStatus
from controlplane.alerting.evaluation import Evaluation
from controlplane.alerting.notifier import Notifier
from controlplane.alerting.rule_statistics import RuleStatistics, rule_statistics
from controlplane.alerting.rulebook import Rulebook
from controlplane.alerting.silence_state import SilenceStates
from controlplane.alerting.trial import TrialResult, send_trial, trial_message
from controlplane.alerting.views import AlertView, FiringAlert, GroupView
from controlplane.errors import BadRequest, Conflict, NotFound
from controlplane.records import NotificationLogEntry
from controlplane.store import alerting as rows
from controlplane.store import audit
from controlplane.store.alerting import StoredAlert
from controlplane.store.writer import Writer

#: Silences that are not expired, and all stored silences including expired ones.
MAX_SILENCES, MAX_STORED_SILENCES = 1_000, 20_000
#: Firings that statistics of rules read.
MAX_EPISODES = 20_000
#: Most severe first; unknown values come last.
SEVERITIES = ("critical", "warning", "info")
#: Label `layer` of alerts that a driver does not answer, or has ended.
DRIVER_LAYERS = ("agent", "driver")
ReadConnection = Callable[[], AbstractContextManager[Connection]]


class AlertQueries:
    """Alerts, silences, rules and the notification log. Thread-safe; times are Unix seconds."""

    def __init__(
        self,
        book: Rulebook,
        evaluation: Evaluation,
        notifier: Notifier,
        silence_state: SilenceStates,
        writer: Writer,
        reading: ReadConnection,
        clock: Callable[[], float],
        current: Callable[[], Sequence[StoredAlert]],
        alertmanagers: Callable[[], Sequence[AlertmanagerStatus]] = tuple,
    ):
        """`current`: alerts of the rules and received ones. `alertmanagers`: those to which alerts are also sent."""
        self._current, self.alertmanagers = current, alertmanagers
        self._book, self._evaluation, self._notifier = book, evaluation, notifier
        self._silence_state, self._writer, self._reading, self._clock = silence_state, writer, reading, clock

    @property
    def config(self) -> Config:
        return self._book.config

    @property
    def book(self) -> Rulebook:
        """Rules and configuration in use."""
        return self._book

    def replace(self, book: Rulebook) -> None:
        self._book = book

    def receivers(self) -> tuple[ReceiverStatus, ...]:
        """Every configured receiver, with its webhooks and failures."""
        return delivery.receivers(self._book, self._notifier.failures())

    def delivery_problem(self) -> DeliveryProblem | None:
        """Why notifications reach nobody, or not everybody; None where they are delivered."""
        return delivery.problem(self._book, self._notifier.failures(), self.alertmanagers())

    def try_receiver(self, name: str, actor: str, via: str) -> tuple[TrialResult, ...]:
        """Send a trial notification to each integration of a receiver. Raises NotFound; Conflict where it has none."""
        now, book = self._clock(), self._book
        if name not in book.config.receivers:
            known = ", ".join(sorted(book.config.receivers)[:20])
            raise NotFound(f"there is no receiver {name[:100]!r}; configured: {known}")
        if not book.receivers.get(name):
            raise Conflict(f"receiver {name!r} has no integration", code="no_integration")
        self._writer.write(lambda conn: audit.record(conn, now, actor, via, "receiver.try", name))
        return send_trial(book.receivers[name], trial_message(name, actor, self._notifier.page_url, now))

    # -- alerts ----------------------------------------------------------------------------------------

    def alerts(self, now: float) -> tuple[AlertView, ...]:
        """Pending and firing alerts, and those resolved within the last 15 minutes, unordered."""
        stored, inhibitor = self._current(), self._notifier.inhibitor
        known = {item.alert.fingerprint: item.alert for item in stored}
        active = self._silence_state.active(now)
        return tuple(self._view(item, inhibitor, known, active, now) for item in stored)

    def _view(
        self,
        item: StoredAlert,
        inhibitor: Inhibitor,
        known: Mapping[str, Alert],
        active: Sequence[Silence],
        now: float,
    ) -> AlertView:
        alert = item.alert
        over = alert.state is AlertState.RESOLVED
        inhibited = () if over else inhibitor.inhibiting(alert.labels)
        routes = routing.matching_routes(self.config.route, alert.labels)
        names = tuple(dict.fromkeys(route.receiver for route in routes))
        return AlertView(
            alert=alert,
            group=self._evaluation.group_name(item.group),
            reason=item.reason,
            silenced_by=() if over else silences.silenced_by(active, alert.labels, now),
            inhibited_by=tuple(known[name] for name in inhibited if name in known),
            acknowledgement=acknowledgements.find(alert, self._silence_state.acknowledgements),
            receivers=names,
            deliverable=any(self._book.receivers.get(name) for name in names),
            notified=self._notifier.notified(alert.fingerprint),
        )

    def alert(self, fingerprint: str, now: float) -> AlertView:
        """The alert with this fingerprint, current or past; prefers firing where two rules give the same labels."""
        found = [view for view in self.alerts(now) if view.alert.fingerprint == fingerprint]
        if found:
            return max(found, key=lambda view: (view.alert.state is AlertState.FIRING, view.alert.active_at))
        with self._reading() as conn:
            past = rows.history(conn, 0.0, now, limit=1, fingerprint=fingerprint)
        if not past:
            raise NotFound(f"there is no alert {fingerprint}")
        return self._past(past[0])

    def history(
        self, start: float, end: float, query_id: str | None, limit: int, app: str | None = None
    ) -> list[AlertView]:
        """Alerts that fired between `start` and `end`, newest first. `app`: with those of the query's whole app."""
        with self._reading() as conn:
            found = rows.history(conn, start, end, query_id, limit, app=app)
            return [self._past(item) for item in found]

    def rule_statistics(self, start: float, end: float) -> list[RuleStatistics]:
        """How often and how long each rule fired between `start` and `end`; of MAX_EPISODES firings, the newest."""
        with self._reading() as conn:
            episodes = rows.history(conn, start, end, limit=MAX_EPISODES)
            acknowledged = rows.all_acknowledgements(conn)
        rules = [rule for group in self._book.groups for rule in group.rules]
        return rule_statistics(episodes, acknowledged, rules, self._group_interval, end)

    def _group_interval(self, labels: Labels) -> float:
        routes = routing.matching_routes(self.config.route, labels)
        return min(route.timing.group_interval for route in routes) if routes else 0.0

    def _past(self, item: StoredAlert) -> AlertView:
        return AlertView(
            alert=item.alert,
            group=self._evaluation.group_name(item.group),
            reason=item.reason,
            acknowledgement=acknowledgements.find(item.alert, self._silence_state.acknowledgements),
            notified=self._notifier.notified(item.alert.fingerprint),
        )

    def firing(self, now: float) -> dict[str, tuple[FiringAlert, ...]]:
        """The firing unmuted alerts, by query id (or application without one)."""
        found: dict[str, tuple[FiringAlert, ...]] = {}
        inhibitor, active = self._notifier.inhibitor, self._silence_state.active(now)
        for alert in (item.alert for item in self._current()):
            about = alert.labels.get("query_id") or alert.labels.get("app", "")
            if alert.state is not AlertState.FIRING or inhibitor.inhibiting(alert.labels):
                continue
            if not silences.silenced_by(active, alert.labels, now):
                fires = FiringAlert(
                    alert.labels.get("alertname", ""),
                    alert.labels.get("severity", ""),
                    "query_id" not in alert.labels and alert.labels.get("layer") in DRIVER_LAYERS,
                )
                found[about] = (*found.get(about, ()), fires)
        return found

    def acknowledge(self, fingerprint: str, actor: str, via: str, comment: str) -> AlertView:
        """Acknowledge a firing alert, so it is not repeated. Raises NotFound, or Conflict if it does not fire."""
        now = self._clock()
        alert = self.alert(fingerprint, now).alert
        try:
            item = acknowledgements.acknowledge(alert, actor, now, comment)
        except ValueError as error:
            raise Conflict(str(error), code="not_firing") from None

        def work(conn: Connection) -> None:
            rows.put_acknowledgement(conn, item)
            audit.record(conn, now, actor, via, "alert.acknowledge", fingerprint, {"comment": comment})

        self._writer.write(work, lambda _: self._silence_state.acknowledge(item))
        return self.alert(fingerprint, now)

    # -- silences --------------------------------------------------------------------------------------

    def silences(self, now: float) -> tuple[Silence, ...]:
        """All stored silences, newest first."""
        return tuple(sorted(self._silence_state.silences, key=lambda item: -item.updated_at))

    def silence(self, id: str) -> Silence:
        found = self._silence_state.silence(id)
        if found is None:
            for other in self.alertmanagers():
                if any(silence.id == id for silence in other.silences):
                    raise Conflict(f"silence {id} belongs to {other.name}; change it there", code="elsewhere")
            raise NotFound(f"there is no silence {id}")
        return found

    def add_silence(self, silence: Silence, actor: str, via: str) -> Silence:
        """Store a new silence. Raises BadRequest if it is invalid, Conflict at the limit."""
        now = self._clock()
        self._check(silence, now)
        if len(self._silence_state.silences) >= MAX_STORED_SILENCES:
            raise Conflict(
                f"the limit of {MAX_STORED_SILENCES} stored silences is reached; retention removes the oldest",
                code="too_many",
            )
        if (
            sum(item.state(now) is not SilenceState.EXPIRED for item in self._silence_state.silences)
            >= MAX_SILENCES
        ):
            raise Conflict(
                f"the limit of {MAX_SILENCES} silences is reached; expire some first", code="too_many"
            )
        added = replace(silence, id=str(uuid.uuid4()), updated_at=now)
        self._put([added], actor, via, "silence.add", now)
        return added

    def change_silence(self, id: str, silence: Silence, actor: str, via: str) -> Silence:
        """Update a silence in place where its past does not change; otherwise end it and add a new one."""
        now = self._clock()
        old = self.silence(id)
        self._check(silence, now)
        after = [
            item if item.id else replace(item, id=str(uuid.uuid4()))
            for item in silences.update(old, silence, now)
        ]
        self._put(after, actor, via, "silence.change", now)
        return after[-1]

    def expire_silence(self, id: str, actor: str, via: str) -> Silence:
        """End a silence now. Idempotent."""
        now, old = self._clock(), self.silence(id)
        ended = silences.expire(old, now)
        if ended is not old:
            self._put([ended], actor, via, "silence.expire", now)
        return ended

    def _check(self, silence: Silence, now: float) -> None:
        if wrong := silences.validation_errors(silence, now):
            raise BadRequest("; ".join(wrong), code="bad_silence")

    def _put(self, changed: Iterable[Silence], actor: str, via: str, what: str, now: float) -> None:
        changed = list(changed)

        def work(conn: Connection) -> None:
            for item in changed:
                rows.put_silence(conn, item)
                detail = {"matchers": routing.matchers_text(item.matchers), "comment": item.comment}
                audit.record(conn, now, actor, via, what, item.id, detail)

        self._writer.write(work, lambda _: self._silence_state.put(changed))

    # -- rules and notes -------------------------------------------------------------------------------

    def rules(self) -> tuple[GroupView, ...]:
        return self._evaluation.groups()

    def groups(self, now: float) -> tuple[Group, ...]:
        """Alert groups as they are notified together."""
        return self._notifier.groups()

    def notes(self, limit: int, fingerprint: str | None = None) -> list[NotificationLogEntry]:
        """The log of notifications, newest first."""
        with self._reading() as conn:
            return rows.logged_notifications(conn, limit, fingerprint)


def worse_severity(item: str, other: str) -> str:
    """The more severe of two severities."""
    order = {severity: place for place, severity in enumerate(SEVERITIES)}
    return min(item, other, key=lambda severity: order.get(severity, len(order) + (not severity)))
