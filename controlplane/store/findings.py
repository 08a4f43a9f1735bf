"""Tables of what was found out about queries: inventories of checkpoints, verdicts, shapes, baselines.

Read and written by `controlplane.store.checkpoints`, `shapes` and `baselines`; of the same metadata as all tables.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, LargeBinary, Table

from controlplane.store.tables import CleanText, Json, Key, Seconds, metadata

#: Inventories of checkpoints, newest few of a query. `document`: the survey, zstd; only of the newest it is kept.
inventories = Table(
    "inventories",
    metadata,
    Column("key", Key, primary_key=True),
    Column("query_id", CleanText, nullable=False),
    Column("run_id", CleanText),
    Column("checkpoint", CleanText, nullable=False),
    Column("taken_at", Seconds, nullable=False),
    Column("header", Json, nullable=False),
    Column("document", LargeBinary),
    Index(None, "query_id", "taken_at"),
)

#: What the doctor says of the newest inventory of each query.
checkpoint_verdicts = Table(
    "checkpoint_verdicts",
    metadata,
    Column("query_id", CleanText, primary_key=True),
    Column("taken_at", Seconds, nullable=False),
    Column("judged_at", Seconds, nullable=False),
    Column("verdict", CleanText, nullable=False),
    Column("judgement", Json, nullable=False),
)

#: The shape of each run of a query, and what its comparison with the run before said.
shapes = Table(
    "shapes",
    metadata,
    Column("key", Key, primary_key=True),
    Column("run_id", CleanText, nullable=False, unique=True),
    Column("query_id", CleanText, nullable=False),
    Column("app", CleanText, nullable=False),
    Column("name", CleanText),
    Column("checkpoint", CleanText),
    Column("at", Seconds, nullable=False),
    Column("shape", Json, nullable=False),
    Column("comparison", Json),
    Index(None, "query_id", "at"),
    Index(None, "app", "name", "at"),
)

#: What is usual for each query. `figures`: float32, zlib; sets that are not complete are not `current`.
baselines = Table(
    "baselines",
    metadata,
    Column("key", Key, primary_key=True),
    Column("set_name", CleanText, nullable=False),
    Column("chunk", Integer, nullable=False),
    Column("current", Boolean, nullable=False),
    *(Column(name, CleanText, nullable=False) for name in ("app", "query", "query_id")),
    Column("made_at", Seconds),
    Column("figures", LargeBinary, nullable=False),
    Index(None, "set_name", "chunk"),
)
