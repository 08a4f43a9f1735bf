"""What happened to a query as the lake tells it: its runs, its alerts, what people asked of it.

Called by `controlplane.history.room` for the Query page's timeline. What the store still has is told here too, as soon
as it was moved: who asks tells them apart by run, by fingerprint and time, by the action's id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from controlplane.history.archive import LOOK_BACK_DAYS, Archive, of
from controlplane.history.model import Happened, PastRun
from controlplane.history.reports import rows_of, seconds

#: Of each kind, the newest.
MOST = 500
LIFE = ("run_id", "event", "reported_at", "exception", "error_class")
ALERT = ("name", "severity", "fingerprint", "summary", "fired_at", "resolved_at")
ACTION = (
    "id",
    "action",
    "actor",
    "state",
    "request_reason",
    "reason",
    "requested_at",
    "finished_at",
    "evidence",
)
_STARTED_OR_OVER = pc.field("event").isin(["started", "terminated"])
Row = dict[str, Any]


def read(archive: Archive, query_id: str, start: float, end: float) -> Happened:
    """What of it lies between two moments. LakeError, TooCostly as of `Archive`."""
    look_back = start - LOOK_BACK_DAYS * 86400.0
    alerts = _rows(archive, "alerts", ALERT, query_id, look_back, end)
    asked = _rows(archive, "actions", ACTION, query_id, start, end)
    fired = [one for one in alerts if one["fired_at"] <= end and (one["resolved_at"] or end) >= start]
    return Happened(
        _runs(archive, query_id, start, end)[-MOST:],
        fired[-MOST:],
        [_action(one) for one in asked if start <= one["requested_at"] <= end][-MOST:],
    )


def _runs(archive: Archive, query_id: str, start: float, end: float) -> list[PastRun]:
    """Oldest first. Of a run that began before `start` the beginning is not known."""
    days = archive.days("lifecycle", start - 86400.0, end)
    where = of([query_id]).but(_STARTED_OR_OVER, "started or terminated")
    found: dict[str, Row] = {}
    for run_id in _at_first(archive, query_id, start, end):
        found[run_id] = {"run_id": run_id}
    told = rows_of(archive.table("lifecycle", LIFE, days, where).sort_by("reported_at"))
    for row in told:
        at = row["reported_at"] / 1e6
        run = found.setdefault(row["run_id"], {"run_id": row["run_id"]})
        if row["event"] == "started":
            run.setdefault("started_at", at)
        else:
            run |= {"ended_at": at, "failure": row["exception"], "error_class": row["error_class"]}
    runs = sorted(found.values(), key=lambda run: run.get("started_at", start))
    for place, run in enumerate(runs):
        if "ended_at" not in run:  # its driver was killed, or it goes on
            after = min((one["started_at"] for one in runs[place + 1 :] if "started_at" in one), default=end)
            run["heard_at"] = _last_heard(
                archive, query_id, run["run_id"], run.get("started_at", start), after
            )
    made = [PastRun(**run) for run in runs]
    return [run for run in made if _touches(run, start, end)]


def _touches(run: PastRun, start: float, end: float) -> bool:
    until = run.ended_at if run.ended_at is not None else run.heard_at
    return (run.started_at or start) <= end and (until is None or until >= start)


def _at_first(archive: Archive, query_id: str, start: float, end: float) -> Sequence[str]:
    """The runs of the first day: one that began before it has no other trace of its beginning."""
    days = archive.days("progress", start, end)[:1]
    rows = archive.table("progress", ("run_id",), days, of([query_id]))
    return sorted(set(rows["run_id"].to_pylist()))


def _last_heard(archive: Archive, query_id: str, run_id: str, start: float, end: float) -> float | None:
    """When the last report of a run came."""
    for day in reversed(archive.days("progress", start - 86400.0, end)):
        rows = archive.table("progress", ("run_id", "reported_at"), [day], of([query_id]))
        own = rows.filter(pc.equal(rows["run_id"], run_id))
        if own.num_rows:
            return seconds(pc.max(own["reported_at"].cast("int64")).as_py())
    return None


def _rows(
    archive: Archive, table: str, columns: tuple[str, ...], query_id: str, start: float, end: float
) -> list[Row]:
    """Of whole days, oldest first; times in Unix seconds."""
    times = [name for name in columns if name.endswith("_at")]
    rows = archive.table(table, columns, archive.days(table, start, end), of([query_id]))
    found = [dict(row) | {name: seconds(row[name]) for name in times} for row in rows_of(rows)]
    return sorted(found, key=lambda row: float(row[times[0]]))


def _action(row: Mapping[str, Any]) -> Row:
    try:
        told = json.loads(row["evidence"]) if row["evidence"] else {}
    except ValueError:
        told = {}
    return {**row, "evidence": told if isinstance(told, dict) else {}}
