"""Alerts, notifications, silences and acknowledgements: plain functions on a connection.

`controlplane.alerting.evaluation` writes the rows of `alerts`, `controlplane.alerting.notifier` those of
`notification_log` and `notifications`, each change in one transaction.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from alerts.acknowledgements import Acknowledgement
from alerts.matching.labels import Matcher
from alerts.notify.reasons import NotificationState
from alerts.silences import Silence
from alerts.state import Alert, AlertState, Transition
from controlplane.records import DeliveryOutcome, NotificationLogEntry
from controlplane.store.tables import (
    acknowledgements,
    alerts,
    notification_log,
    notifications,
    rule_groups,
    silences,
)

RESOLVED = AlertState.RESOLVED.value
#: Characters of an indexed label: PostgreSQL limits an index entry to 2 700 bytes, and no query id is this long.
MAX_INDEXED_CHARS = 200
#: Alerts that one statement looks up.
CHUNK_SIZE = 500
#: Group, rule, fingerprint.
_Identity = tuple[str, str, str]
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class StoredAlert:
    """An alert with its rule: `group` is the key of the rule group, `rule` the rule's key in it."""

    group: str
    rule: str
    alert: Alert
    reason: str


@dataclass(frozen=True)
class AlertChange:
    """A transition of an alert, with the keys of its rule group and rule."""

    group: str
    rule: str
    transition: Transition


# -- alerts ----------------------------------------------------------------------------------------


def record_changes(
    connection: Connection, changes: Iterable[AlertChange], evaluated: Mapping[str, float]
) -> None:
    """Store transitions and the evaluation times of groups (`evaluated`: by group key, Unix seconds).

    Idempotent, as a write that timed out may have been committed and is repeated.
    """
    for batch in _rounds(changes):
        for chunk in _chunks(batch):
            _store_round(connection, chunk)
    for group, at in evaluated.items():
        update = sa.update(rule_groups).where(rule_groups.c.group == group)
        if not connection.execute(update.values(evaluated_at=at)).rowcount:
            connection.execute(sa.insert(rule_groups).values(group=group, evaluated_at=at))


def _rounds(changes: Iterable[AlertChange]) -> list[list[AlertChange]]:
    """Split the changes into lists in which each alert occurs once; the changes of an alert keep their order."""
    rounds: list[list[AlertChange]] = []
    seen: Counter[_Identity] = Counter()
    for change in changes:
        number = seen[_identity(change)]
        seen[_identity(change)] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(change)
    return rounds


def _chunks(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK_SIZE)):
        yield chunk


def _identity(change: AlertChange) -> _Identity:
    return change.group, change.rule, change.transition.alert.fingerprint


def _store_round(connection: Connection, changes: Sequence[AlertChange]) -> None:
    """Store changes of distinct alerts, a thousand with a few statements."""
    known, new, other, gone = _known(connection, changes), [], [], []
    for change in changes:
        alert, episodes = change.transition.alert, known.get(_identity(change), ())
        if any(row.state == RESOLVED and row.active_at == alert.active_at for row in episodes):
            continue  # stored by an earlier write
        keys = [row.key for row in episodes if row.state != RESOLVED]
        if change.transition.after is None:
            gone += keys
        elif keys:
            other += [{"at_key": key, **_values(alert, change.transition.reason)} for key in keys]
        else:
            names = dict(zip(("group", "rule", "fingerprint"), _identity(change), strict=True))
            new.append({**names, **_values(alert, change.transition.reason)})
    if new:
        connection.execute(sa.insert(alerts), new)
    if other:
        connection.execute(sa.update(alerts).where(alerts.c.key == sa.bindparam("at_key")), other)
    if gone:
        connection.execute(sa.delete(alerts).where(alerts.c.key.in_(gone)))


def _known(connection: Connection, changes: Sequence[AlertChange]) -> dict[_Identity, list[Any]]:
    """Stored episodes of the changing alerts: the open ones, and those that began at the same time."""
    changing = [change.transition.alert for change in changes]
    query = sa.select(
        alerts.c.key, alerts.c.group, alerts.c.rule, alerts.c.fingerprint, alerts.c.state, alerts.c.active_at
    ).where(
        alerts.c.fingerprint.in_({alert.fingerprint for alert in changing}),
        (alerts.c.state != RESOLVED) | alerts.c.active_at.in_({alert.active_at for alert in changing}),
    )
    found: dict[_Identity, list[Any]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.group, row.rule, row.fingerprint].append(row)
    return found


def _query_id(labels: Mapping[str, str]) -> str | None:
    return labels["query_id"][:MAX_INDEXED_CHARS] if "query_id" in labels else None


def _values(alert: Alert, reason: str) -> dict[str, Any]:
    return {
        "name": alert.rule,
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "value": alert.value,
        "state": alert.state.value,
        "active_at": alert.active_at,
        "fired_at": alert.fired_at,
        "resolved_at": alert.resolved_at,
        "reason": reason,
        "query_id": _query_id(alert.labels),
    }


def recent_alerts(connection: Connection, resolved_since: float) -> list[StoredAlert]:
    """Pending and firing alerts, and those resolved after `resolved_since` (Unix seconds)."""
    query = sa.select(alerts).where((alerts.c.state != RESOLVED) | (alerts.c.resolved_at > resolved_since))
    return [_stored(row) for row in connection.execute(query.order_by(alerts.c.key)).mappings()]


def last_resolved(connection: Connection, fingerprints: Iterable[str]) -> list[StoredAlert]:
    """The last resolved episode of each of these alerts, at any time in the past."""
    found: dict[str, StoredAlert] = {}
    for chunk in _chunks(fingerprints):
        over = (alerts.c.state == RESOLVED) & alerts.c.fingerprint.in_(chunk)
        query = sa.select(alerts).where(over).order_by(alerts.c.resolved_at, alerts.c.key)
        found |= {row["fingerprint"]: _stored(row) for row in connection.execute(query).mappings()}
    return list(found.values())


def evaluated_at(connection: Connection) -> dict[str, float]:
    """Time of the last evaluation of each rule group, by group key."""
    return {row.group: row.evaluated_at for row in connection.execute(sa.select(rule_groups))}


def history(
    connection: Connection,
    start: float,
    end: float,
    query_id: str | None = None,
    limit: int = 200,
    fingerprint: str | None = None,
    app: str | None = None,
) -> list[StoredAlert]:
    """Alerts that fired at any time between `start` and `end`, newest first.

    `app`: beside those of the query, the alerts of its application that name no query.
    """
    query = sa.select(alerts).where(
        alerts.c.fired_at.is_not(None),
        alerts.c.fired_at <= end,
        alerts.c.resolved_at.is_(None) | (alerts.c.resolved_at >= start),
    )
    if query_id is not None:
        own = alerts.c.query_id == query_id[:MAX_INDEXED_CHARS]
        query = query.where(own if app is None else own | alerts.c.query_id.is_(None))
    if fingerprint is not None:
        query = query.where(alerts.c.fingerprint == fingerprint)
    newest_first = query.order_by(alerts.c.fired_at.desc(), alerts.c.key.desc())
    rows = connection.execute(newest_first.limit(limit if app is None else None)).mappings()
    about = (row for row in rows if app is None or row["query_id"] or row["labels"].get("app") == app)
    return [_stored(row) for row in islice(about, limit)]


def _stored(row: RowMapping) -> StoredAlert:
    alert = Alert(
        rule=row["name"],
        labels=row["labels"],
        annotations=row["annotations"],
        value=row["value"],
        state=AlertState(row["state"]),
        active_at=row["active_at"],
        fired_at=row["fired_at"],
        resolved_at=row["resolved_at"],
    )
    return StoredAlert(row["group"], row["rule"], alert, row["reason"])


# -- notifications ---------------------------------------------------------------------------------


def notification_states(connection: Connection) -> dict[tuple[str, str], NotificationState]:
    """The state after the last notification, by group key and receiver."""
    return {
        (row.group_key, row.receiver): NotificationState(
            frozenset(row.firing), frozenset(row.resolved), row.at
        )
        for row in connection.execute(sa.select(notification_log))
    }


def log_notification(
    connection: Connection, entry: NotificationLogEntry, state: NotificationState | None
) -> None:
    """Store a notification and, if one was sent, the receiver's new state. Idempotent."""
    values = {
        "at": entry.at,
        "receiver": entry.receiver,
        "group_key": entry.group_key,
        "outcome": entry.outcome.value,
        "reason": entry.reason,
        "fingerprints": list(entry.fingerprints),
    }
    same = (notifications.c.at == entry.at) & (notifications.c.receiver == entry.receiver)
    connection.execute(sa.delete(notifications).where(same & (notifications.c.group_key == entry.group_key)))
    connection.execute(sa.insert(notifications).values(values))
    if state is None:
        return
    digest = _digest(entry.group_key, entry.receiver)
    connection.execute(sa.delete(notification_log).where(notification_log.c.digest == digest))
    if not state.firing:
        return  # all alerts are resolved for the receiver; no row means the same
    known = {"firing": sorted(state.firing), "resolved": sorted(state.resolved), "at": state.at}
    named = {"digest": digest, "group_key": entry.group_key, "receiver": entry.receiver}
    connection.execute(sa.insert(notification_log).values(**named, **known))


def _digest(group_key: str, receiver: str) -> str:
    return hashlib.sha256(f"{receiver}\0{group_key}".encode(errors="replace")).hexdigest()


def logged_notifications(
    connection: Connection, limit: int = 100, fingerprint: str | None = None
) -> list[NotificationLogEntry]:
    """The newest notifications with their outcomes, newest first, of one alert or of all."""
    query = sa.select(notifications).order_by(notifications.c.key.desc()).limit(limit)
    if fingerprint is not None:
        query = query.where(
            sa.type_coerce(notifications.c.fingerprints, sa.Text).contains(fingerprint, autoescape=True)
        )
    return [
        NotificationLogEntry(
            row.at,
            row.receiver,
            row.group_key,
            DeliveryOutcome(row.outcome),
            row.reason,
            tuple(row.fingerprints),
        )
        for row in connection.execute(query)
    ]


# -- silences and acknowledgements -----------------------------------------------------------------


def all_silences(connection: Connection) -> list[Silence]:
    """All silences, newest first."""
    return [_silence(row) for row in connection.execute(sa.select(silences).order_by(silences.c.key.desc()))]


def _silence(row: Any) -> Silence:
    matchers = tuple(Matcher(*parts) for parts in row.matchers)
    return Silence(row.id, matchers, row.starts_at, row.ends_at, row.created_by, row.comment, row.updated_at)


def put_silence(connection: Connection, silence: Silence) -> None:
    """Insert a silence or replace the one with its id."""
    values = {
        "matchers": [[m.name, m.operator, m.value] for m in silence.matchers],
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "created_by": silence.created_by,
        "comment": silence.comment,
        "updated_at": silence.updated_at,
    }
    if not connection.execute(sa.update(silences).where(silences.c.id == silence.id).values(values)).rowcount:
        connection.execute(sa.insert(silences).values(id=silence.id, **values))


def all_acknowledgements(connection: Connection) -> list[Acknowledgement]:
    """All acknowledgements, oldest first."""
    rows = connection.execute(sa.select(acknowledgements).order_by(acknowledgements.c.key))
    return [Acknowledgement(row.fingerprint, row.fired_at, row.by, row.at, row.comment) for row in rows]


def put_acknowledgement(connection: Connection, given: Acknowledgement) -> None:
    """Store an acknowledgement."""
    values = {"fingerprint": given.fingerprint, "fired_at": given.fired_at, "by": given.by, "at": given.at}
    connection.execute(sa.insert(acknowledgements).values(**values, comment=given.comment))


def prune(connection: Connection, cutoff: float) -> int:
    """Delete episodes, notifications, silences and acknowledgements that ended before `cutoff`; return the count.

    Acknowledgements and notification states of an alert that still fires stay at any age.
    """
    fires = sa.select(alerts.c.fingerprint).where(alerts.c.state == AlertState.FIRING.value)
    over = acknowledgements.c.fingerprint.not_in(fires)
    old = (
        (alerts, (alerts.c.state == RESOLVED) & (alerts.c.resolved_at < cutoff)),
        (notifications, notifications.c.at < cutoff),
        (silences, silences.c.ends_at < cutoff),
        (acknowledgements, (acknowledgements.c.at < cutoff) & over),
        (notification_log, notification_log.c.digest.in_(_obsolete_states(connection, cutoff, fires))),
    )
    return sum(connection.execute(sa.delete(table).where(where)).rowcount for table, where in old)


def _obsolete_states(connection: Connection, cutoff: float, fires: sa.Select[tuple[str]]) -> list[str]:
    rows = connection.execute(sa.select(notification_log).where(notification_log.c.at < cutoff)).all()
    firing = set(connection.execute(fires).scalars()) if rows else set()
    return [row.digest for row in rows if firing.isdisjoint(row.firing)]
