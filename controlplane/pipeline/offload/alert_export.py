"""Export finished alerts and actions to the lake, one day at a time, on the driver: there are few of them.

They stay in the store; a day that has changed is written again and replaces the lake's rows. Called by
`controlplane.pipeline.offload.offload_job`.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from alerts.state import AlertState
from controlplane.history.offload_commits import JOB
from controlplane.lake.lake import Lake
from controlplane.lake.schema import TABLES, arrow_schema
from controlplane.model import ActionState
from controlplane.records import DeliveryOutcome
from controlplane.store.tables import actions, alerts, notifications

Row = dict[str, Any]
FINAL_STATES = tuple(state.value for state in ActionState if state.final)


@dataclass(frozen=True)
class DayRecords:
    """Finished alerts and actions that began on a day, by table."""

    day: date
    rows: Mapping[str, Sequence[Row]]

    @property
    def digest(self) -> str:
        """A hash of the rows, to detect changes."""
        text = json.dumps(self.rows, default=str, sort_keys=True)
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()

    @property
    def count(self) -> int:
        """Rows of all tables."""
        return sum(map(len, self.rows.values()))


def export_days(connection: Connection, lake: Lake, store: str) -> int:
    """Write new and changed days; return their number. A day of which the store has deleted rows is left
    unchanged.
    """
    manifest, written = lake.manifest(), 0
    for day in finished_days(connection, store):
        batch = f"{store}-records-{day.day.isoformat()}"
        before = manifest.get(JOB, batch)
        if before and (before.rows > day.count or before.facts.get("digest") == day.digest):
            continue
        staging = lake.stage(JOB, batch)
        parts = [
            part
            for name, rows in day.rows.items()
            for part in staging.write(name, build_table(name, rows), "00000")
        ]
        lake.commit(staging, parts, {"store": store, "digest": day.digest})
        written += 1
    return written


def build_table(name: str, rows: Sequence[Row]) -> pa.Table:
    """Rows of Python values as a table of the lake; times are Unix seconds."""
    schema = arrow_schema(name)
    columns = {
        column.name: pa.array(
            [_arrow_value(row[column.name], schema.field(column.name).type) for row in rows],
            schema.field(column.name).type,
        )
        for column in TABLES[name].columns
    }
    return pa.table(columns, schema=schema)


def _arrow_value(value: Any, type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_timestamp(type):
        return round(value * 1e6)
    return list(value.items()) if pa.types.is_map(type) else value


def finished_days(connection: Connection, store: str) -> Iterator[DayRecords]:
    """Finished alerts and actions, by the day on which they began. `store`: the store's id."""
    found: dict[date, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in _alerts(connection, store):
        found[_day(row["fired_at"])]["alerts"].append(row)
    for row in _actions(connection):
        found[_day(row["requested_at"])]["actions"].append(row)
    return (DayRecords(day, found[day]) for day in sorted(found))


def _day(at: float) -> date:
    return datetime.fromtimestamp(at, UTC).date()


def _alerts(connection: Connection, store: str) -> Iterator[Row]:
    over = sa.select(alerts).where(
        alerts.c.state == AlertState.RESOLVED.value, alerts.c.fired_at.is_not(None)
    )
    sent_times = _notification_times(connection)
    for row in connection.execute(over.order_by(alerts.c.key)).mappings():
        labels = {str(name): str(value) for name, value in row["labels"].items()}
        yield {
            "store": store,
            "key": row["key"],
            "name": row["name"],
            "severity": labels.get("severity"),
            "app": labels.get("app"),
            "query": labels.get("query"),
            "query_id": row["query_id"],
            "fingerprint": row["fingerprint"],
            "labels": labels,
            "summary": row["annotations"].get("summary"),
            "value": row["value"],
            "active_at": row["active_at"],
            "fired_at": row["fired_at"],
            "resolved_at": row["resolved_at"],
            "notified": _count_sent(
                sent_times.get(row["fingerprint"], ()), row["fired_at"], row["resolved_at"]
            ),
            "reason": row["reason"],
        }


def _notification_times(connection: Connection) -> Mapping[str, Sequence[float]]:
    """Fingerprint → times of the notifications sent."""
    sent = sa.select(notifications.c.at, notifications.c.fingerprints).where(
        notifications.c.outcome == DeliveryOutcome.SENT.value
    )
    found: dict[str, list[float]] = defaultdict(list)
    for row in connection.execute(sent):
        for fingerprint in row.fingerprints:
            found[fingerprint].append(row.at)
    return found


def _count_sent(times: Iterable[float], fired_at: float, resolved_at: float | None) -> int:
    """Notifications sent while an episode was firing; that of its end comes later and is not counted."""
    return sum(fired_at <= at and (resolved_at is None or at <= resolved_at) for at in times)


def _actions(connection: Connection) -> Iterator[Row]:
    over = sa.select(actions).where(actions.c.state.in_(FINAL_STATES)).order_by(actions.c.key)
    for row in connection.execute(over).mappings():
        kept = {name: row[name] for name in TABLES["actions"].names if name in row}
        yield {
            **kept,
            "query": row["name"] or row["query_id"][:8],
            "evidence": json.dumps(row["evidence"]) if row["evidence"] else None,
        }
