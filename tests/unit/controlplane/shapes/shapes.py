"""Shapes to compare: one query of each sort, as `listeners.spark.shape` reports it, and changes of it."""

from __future__ import annotations

import copy
from typing import Any

from controlplane.shapes.model import Shape, shape_from

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PARTITIONS = "spark.sql.shuffle.partitions"
STREAMING = "spark.sql.streaming."
CONF = {
    PARTITIONS: "200",
    STREAMING + "stateStore.providerClass": HDFS,
    STREAMING + "multipleWatermarkPolicy": "min",
    STREAMING + "offsetLog.formatVersion": "1",
}


def source(place: str = "orders", **more: Any) -> dict[str, Any]:
    found = {
        "type": "FileStreamSource",
        "description": f"FileStreamSource[file:/in/{place}]",
        "format": "json",
        "name": None,
        "options": {"path": f"/in/{place}"},
    }
    return {**found, **more}


def topics(topics: str, **options: str) -> dict[str, Any]:
    described = {"type": "KafkaV2", "description": f"KafkaV2[Subscribe[{topics}]]", "format": "kafka"}
    return {**described, "name": None, "options": {"subscribe": topics, **options}}


def sink(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "description": kind, "format": None, "name": None, "options": {}, **more}


def files(place: str = "out", format: str = "Parquet") -> dict[str, Any]:
    return sink("FileStreamSink", description=f"FileSink[file:/{place}]", format=format)


def key(name: str, type: str = "string", of: str | None = None) -> dict[str, Any]:
    return {"name": name, "type": type, "of": of or name}


def aggregate(*values: list[str], keys: Any = None, **more: Any) -> dict[str, Any]:
    chosen = list(values) or [["count(1)", "long"], ["sum(v)", "long"]]
    return {"kind": "aggregate", "keys": keys or [key("k")], "values": chosen, "state": chosen, **more}


def deduplicate(*keys: dict[str, Any], kind: str = "deduplicate") -> dict[str, Any]:
    return {"kind": kind, "keys": list(keys)}


def join(**more: Any) -> dict[str, Any]:
    found = {
        "kind": "join",
        "joinType": "Inner",
        "condition": "((k = k) AND (ts >= ts))",
        "keys": [key("k")],
        "rightKeys": [key("k")],
        "state": [["string", "timestamp"], ["string", "long", "timestamp"]],
    }
    return {**found, **more}


def functional(**more: Any) -> dict[str, Any]:
    found = {
        "kind": "apply_in_pandas_with_state",
        "keys": [key("k")],
        "state": ["struct<long>"],
        "timeout": "NoTimeout",
        "timeMode": None,
        "outputMode": "append",
    }
    return {**found, **more}


def processor(**more: Any) -> dict[str, Any]:
    found = {"kind": "transform_with_state", "keys": [key("k")], "timeMode": "NoTime", "outputMode": "update"}
    return {**found, **more}


WATERMARK = {"column": "ts", "delay": "10 minutes"}


def reported(*operators: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A document of the agent: a query in update mode that reads files and gives them to a function."""
    found = {
        "v": 1,
        "spark": "4.3.0",
        "name": "orders",
        "sources": [source()],
        "sink": sink("ForeachBatchSink"),
        "outputMode": "update",
        "outputSchema": [["k", "string"], ["n", "long"]],
        "trigger": {"kind": "processing_time", "seconds": 10.0},
        "operators": list(operators),
        "watermarks": [],
        "filters": [],
        "conf": CONF,
        "settings": {},
        "pinned": {name: CONF[name] for name in list(CONF)[:3]},
    }
    return copy.deepcopy({**found, **more})


def shape(*operators: dict[str, Any], **more: Any) -> Shape:
    return shape_from(reported(*operators, **more))


def configured(*operators: dict[str, Any], **settings: str) -> Shape:
    """Asked for with other settings; `partitions` and `provider` for short, else a name after the prefix."""
    short = {"partitions": PARTITIONS, "provider": STREAMING + "stateStore.providerClass"}
    asked = {short.get(n, STREAMING + n.replace("__", ".")): value for n, value in settings.items()}
    return shape(*operators, conf={**CONF, **asked})
