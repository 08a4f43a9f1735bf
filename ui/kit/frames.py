"""The server's JSON as DataFrames for tables and charts.

Pure: no Streamlit, no clock. An unknown value stays missing (never 0). Text from others passes through
`markup`, so that a table cell cannot hide or reorder it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from ui.kit import statuses, units
from ui.kit.markup import no_icon, one_line

Json = Mapping[str, Any]

PHASES = ("addBatch", "queryPlanning", "latestOffset", "getBatch", "walCommit", "commitOffsets")
#: Fields of an action that a search covers, besides the labels.
SEARCHED_FIELDS = (
    "name",
    "server",
    "app",
    "reason",
    "query_id",
    "status",
    "action",
    "actor",
    "request_reason",
)
GAP_FACTOR = 6.0  # a gap of six median distances between points breaks the line


def label(query: Json) -> str:
    """A query's name, else the first eight characters of its id."""
    return no_icon(query.get("name") or str(query.get("query_id") or "")[:8])


def app_of(item: Json) -> str:
    """The app of an item; with its server where there are several."""
    return one_line(" · ".join(str(part) for part in (item.get("server"), item.get("app")) if part))


def matching(items: Sequence[Json], search: str, **fields: Sequence[str]) -> list[Json]:
    """The actions that have one of the values of each field and every word of `search`, also in their labels."""
    wanted = search.lower().split()
    return [
        item
        for item in items
        if all(not values or item.get(field) in values for field, values in fields.items())
        and (not wanted or _contains(_haystack(item), wanted))
    ]


def _labels(item: Json) -> Iterable[str]:
    return (f"{name}={value}" for name, value in (item.get("labels") or {}).items())


def _contains(text: str, wanted: Sequence[str]) -> bool:
    return all(word in text for word in wanted)


def _haystack(item: Json) -> str:
    texts = (value for key in SEARCHED_FIELDS if isinstance(value := item.get(key), str))
    return " ".join([*texts, *_labels(item)]).lower()


def progress(points: Sequence[Json]) -> pd.DataFrame:
    """Progress reports as one row per batch, oldest first, with an empty row in each gap."""
    rows = sorted((_point(point) for point in points), key=lambda row: row["time"])
    frame = pd.DataFrame(_with_gaps(rows), columns=list(_point({"at": 0})))
    numbers = [column for column in frame.columns if column != "run"]
    frame[numbers] = frame[numbers].astype(float)
    frame["time"] = pd.to_datetime(frame["time"], unit="s", utc=True)
    return frame


def _point(point: Json) -> dict[str, Any]:
    phases = {name: units.number((point.get("phases_ms") or {}).get(name)) for name in PHASES}
    duration = units.number(point.get("batch_duration_seconds"))
    named = sum(value for value in phases.values() if value) / 1000
    return {
        "time": units.moment(point.get("at")) or 0.0,
        "run": str(point.get("run_id") or ""),
        "arrival": units.number(point.get("arrival_rows_per_second")),
        "input": units.number(point.get("input_rows_per_second")),
        "processing": units.number(point.get("processed_rows_per_second")),
        "lag_rows": units.number(point.get("lag_rows")),
        "duration": duration,
        **{name: None if value is None else value / 1000 for name, value in phases.items()},
        "other": None if duration is None else max(0.0, duration - named),
        "state_rows": units.number(point.get("state_rows")),
        "state_bytes": units.number(point.get("state_bytes")),
    }


def _with_gaps(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    gaps = [later["time"] - earlier["time"] for earlier, later in pairwise(rows)]
    median = sorted(gaps)[len(gaps) // 2] if gaps else 0.0
    result: list[dict[str, Any]] = []
    for row in rows:
        if result and row["time"] - result[-1]["time"] > max(60.0, GAP_FACTOR * median):
            result.append({"time": result[-1]["time"] + 1, "run": ""})
        result.append(row)
    return result


def open_end(query: Json) -> str:
    """What a run without an end is: `running`, or the status of a query of which that is not known."""
    status = one_line(query.get("status") or "")
    return status if status in statuses.NOT_RUNNING else "running"


def runs(query: Json) -> pd.DataFrame:
    """One row per run of a query."""
    rows = [
        {
            "run": str(item.get("run_id") or "")[:8],
            "started": timestamp(item.get("started_at")),
            "ended": timestamp(item.get("ended_at")),
            "end": one_line(item.get("end") or (open_end(query) if item.get("ended_at") is None else "")),
            "first": units.number(item.get("first_batch_id")),
            "last": units.number(item.get("last_batch_id")),
            "batches": units.number(item.get("batches")),
            "driver": one_line(str(item.get("agent") or "")[:8]),
            "failure": one_line(_failure_line(item.get("failure"))),
        }
        for item in query.get("runs") or []
    ]
    return pd.DataFrame(
        rows, columns=["run", "started", "ended", "end", "first", "last", "batches", "driver", "failure"]
    )


def _failure_line(failure: Json | None) -> str:
    if not failure:
        return ""
    return ": ".join(str(part) for part in (failure.get("condition"), failure.get("message")) if part)


def sources(items: Sequence[Json]) -> pd.DataFrame:
    """One row per source, with its offsets on one line each."""
    rows = [
        {
            "source": one_line(item.get("description") or ""),
            "lag_rows": units.number(item.get("lag_rows")),
            "input_rows": units.number(item.get("input_rows")),
            "input": units.number(item.get("input_rows_per_second")),
            "processed": units.number(item.get("processed_rows_per_second")),
            "start": _compact(item.get("start_offset")),
            "end": _compact(item.get("end_offset")),
            "latest": _compact(item.get("latest_offset")),
            "metrics": _compact(item.get("metrics")),
        }
        for item in items
    ]
    columns = ["source", "lag_rows", "input_rows", "input", "processed", "start", "end", "latest", "metrics"]
    return pd.DataFrame(rows, columns=columns)


def operators(items: Sequence[Json]) -> pd.DataFrame:
    """Spark's `stateOperators`, one row each; the custom metrics on one line."""
    names = {
        "operator": "operatorName",
        "rows": "numRowsTotal",
        "updated": "numRowsUpdated",
        "removed": "numRowsRemoved",
        "dropped": "numRowsDroppedByWatermark",
        "memory": "memoryUsedBytes",
        "commit": "commitTimeMs",
        "partitions": "numShufflePartitions",
        "metrics": "customMetrics",
    }
    rows = [
        {
            column: _compact(item.get(key))
            if column in ("operator", "metrics")
            else units.number(item.get(key))
            for column, key in names.items()
        }
        for item in items
    ]
    return pd.DataFrame(rows, columns=list(names))


def actions(items: Sequence[Json]) -> pd.DataFrame:
    """One row per action."""
    rows = [
        {
            "state": [statuses.action_state(item.get("state")).label],
            "action": action_label(item),
            "query": label(item),
            "app": app_of(item),
            "actor": one_line(item.get("actor") or ""),
            "why": one_line(item.get("request_reason") or ""),
            "outcome": outcome(item),
            "requested": timestamp(item.get("requested_at")),
            "took": action_seconds(item),
        }
        for item in items
    ]
    columns = ["state", "action", "query", "app", "actor", "why", "outcome", "requested", "took"]
    return pd.DataFrame(rows, columns=columns)


def ledger(items: Sequence[Json]) -> pd.DataFrame:
    """One row per decision of a policy."""
    rows = [
        {
            "decision": [statuses.decision(item.get("decision")).label],
            "query": label(item),
            "app": app_of(item),
            "policy": f"{one_line(item.get('policy') or '')} ({item.get('mode')})",
            "why": one_line(item.get("why") or ""),
            "outcome": _decision_outcome(item),
            "decided": timestamp(item.get("at")),
        }
        for item in items
    ]
    return pd.DataFrame(rows, columns=["decision", "query", "app", "policy", "why", "outcome", "decided"])


def _decision_outcome(item: Json) -> str:
    outcome = str(item.get("outcome") or "").replace("_", " ")
    worth = f" ({item['assessment']})" if item.get("assessment") else ""
    return f"{outcome}{worth}: {one_line(item.get('outcome_why') or '')}" if worth else outcome


#: Actions on the checkpoint, which the server carries out itself.
CHECKPOINT_CHANGES = ("rewind", "repair", "undo")


def action_label(action: Json) -> str:
    """`restart`, `restart with drain`, `forced restart with drain`."""
    forced, drain = "forced " if _forced(action) else "", " with drain" if action.get("drain") else ""
    return f"{forced}{one_line(action.get('action') or '')}{drain}"


def _forced(action: Json) -> bool:
    return bool((action.get("evidence") or {}).get("forced_by"))


def outcome(action: Json) -> str:
    """The server's sentence on an action; a refusal because of the checkpoint names the checkpoint first."""
    reason = one_line(action.get("reason") or "")
    named = not refused_for_checkpoint(action) or "checkpoint" in reason.lower()
    return reason if named else f"The checkpoint is broken: {reason}"


def refused_for_checkpoint(action: Json) -> bool:
    """Did the server refuse the action because the checkpoint is broken?"""
    code = action.get("code") or (action.get("evidence") or {}).get("code")
    return action.get("state") == "refused" and code == "checkpoint_broken"


def action_seconds(action: Json) -> float | None:
    """Seconds from the request to the end of a finished action."""
    began, ended = units.moment(action.get("requested_at")), units.moment(action.get("finished_at"))
    return None if began is None or ended is None else max(0.0, ended - began)


def changes(items: Sequence[Json]) -> pd.DataFrame:
    """One row per status change."""
    rows = [
        {
            "at": timestamp(item.get("at")),
            "status": [statuses.status(item.get("status")).label],
            "reason": one_line(item.get("reason") or ""),
        }
        for item in items
    ]
    return pd.DataFrame(rows, columns=["at", "status", "reason"])


def facts(items: Mapping[str, Any]) -> pd.DataFrame:
    """Names and values without the unknown ones."""
    rows = [(one_line(key), _compact(value)) for key, value in items.items() if value not in (None, "", {})]
    return pd.DataFrame(rows, columns=["fact", "value"])


def timestamp(value: object) -> pd.Timestamp | None:
    """A time of the API as a UTC timestamp, cut to seconds."""
    at = units.moment(value)
    return None if at is None else pd.Timestamp(at, unit="s", tz="UTC").floor("s")


def _compact(value: Any) -> str:
    """Nested values on one line: `orders/0: 93220, orders/1: 93140`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {one_line(item)}" for name, item in _flat(value))
    return "" if value is None else one_line(value)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, item in value.items():
        name = f"{prefix}/{one_line(key)}" if prefix else one_line(key)
        if isinstance(item, Mapping):
            yield from _flat(item, name)
        else:
            yield name, item
