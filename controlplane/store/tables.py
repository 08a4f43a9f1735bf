"""Tables of the store. The migrations create the schema; a contract test compares the two.

Times are Unix seconds. Keys are assigned by the database; the UUIDs of Spark and of the agents are stored once, in
`agents`, `queries` and `runs`. JSON is stored as text, so the same rows fit SQLite and PostgreSQL.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from listeners.protocol import wire

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

#: NUL (PostgreSQL rejects it in text) and lone surrogates (no database can encode them).
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """Replace characters that a database or a JSON reader rejects with U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


class CleanText(TypeDecorator[str]):
    """Text column type; characters that no database can store are replaced on write."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Json(TypeDecorator[Any]):
    """Column type of a JSON value stored as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        try:
            return None if value is None else orjson.dumps(value).decode()
        except TypeError:  # an integer of more than 64 bits, or a lone surrogate
            return storable(wire.dumps(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


Key = BigInteger().with_variant(Integer, "sqlite")  # SQLite assigns keys only to a column declared INTEGER
Seconds = Float(53)

agents = Table(
    "agents",
    metadata,
    Column("key", Key, primary_key=True),
    Column("agent", CleanText, nullable=False, unique=True),
    Column("app", CleanText, nullable=False),
    Column("app_id", CleanText),
    Column("spark_version", CleanText),
    Column("master", CleanText),
    Column("ui_url", CleanText),
    Column("actions", CleanText, nullable=False),
    Column("first_seen_at", Seconds, nullable=False),
    Column("last_seen_at", Seconds, nullable=False),
    Column("described_at", Seconds, nullable=False),
    Column("polls", Json),
    Column("ended_at", Seconds),
    Column("end_reason", CleanText),
    Column("end_exception", CleanText),
    Column("clock_offset", Seconds, nullable=False),
    Column("high_seq", Key, nullable=False),
    Column("pruned_seq", Key, nullable=False),
    Column("dropped", Json, nullable=False),
    Column("info", Json, nullable=False),
)

queries = Table(
    "queries",
    metadata,
    Column("key", Key, primary_key=True),
    Column("query_id", CleanText, nullable=False, unique=True),
    Column("app", CleanText, nullable=False),
    Column("name", CleanText),
    Column("labels", Json, nullable=False),
    Column("first_seen_at", Seconds, nullable=False),
    Column("described_at", Seconds, nullable=False),
    Column("newest_run", CleanText),
    Column("start_failed_at", Seconds),
    Column("start_failure", CleanText),
    Column("retired_at", Seconds),
    Column("totals", Json, nullable=False),
    Column("reported", Json),
    Index(None, "app", "name"),
)

runs = Table(
    "runs",
    metadata,
    Column("key", Key, primary_key=True),
    Column("run_id", CleanText, nullable=False, unique=True),
    Column("query_key", Key, ForeignKey("queries.key"), nullable=False),
    Column("agent_key", Key, ForeignKey("agents.key"), nullable=False),
    Column("started_at", Seconds, nullable=False),
    Column("first_seq", Key),
    Column("last_event_at", Seconds, nullable=False),
    Column("ended_at", Seconds),
    Column("ended_by", CleanText),
    Column("end", CleanText),
    Column("first_batch_id", Key),
    Column("last_batch_id", Key),
    Column("batches", Key, nullable=False),
    Column("failure_text", CleanText),
    Column("error_class", CleanText),
    Column("idle_at", Seconds),
    Column("status", Json),
    Column("naming", Json),
    Column("facts", Json, nullable=False),
    Index(None, "query_key", "started_at"),
    Index(None, "agent_key", "ended_at"),
)

#: Events as agents sent them. Ids ascend in the order of arrival and are never reused.
events = Table(
    "events",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=False),
    Column("agent_key", Key, nullable=False),
    Column("seq", Key, nullable=False),
    Column("at", Seconds, nullable=False),
    Column("type", CleanText, nullable=False),
    Column("query_key", Key),
    Column("run_key", Key),
    Column("dictionary", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("agent_key", "seq"),
    Index(None, "query_key", "id"),
)

#: Index of progress reports by query and time; the report itself is the event with the same id.
batches = Table(
    "batches",
    metadata,
    Column("event_id", Key, primary_key=True, autoincrement=False),
    Column("query_key", Key, nullable=False),
    Column("run_key", Key, nullable=False),
    Column("batch_id", Key, nullable=False),
    Column("trigger_at", Seconds, nullable=False),
    Column("at", Seconds, nullable=False),
    UniqueConstraint("run_key", "batch_id", "trigger_at"),
    Index(None, "query_key", "at"),
)

#: zstd dictionaries. Events refer to them by id; id 0 stands for compression without a dictionary.
dictionaries = Table(
    "dictionaries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("created_at", Seconds, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

#: Named integers: `events` is the last event id assigned, the others are marks of retention and offload.
counters = Table(
    "counters",
    metadata,
    Column("name", CleanText, primary_key=True),
    Column("value", Key, nullable=False),
)

status_changes = Table(
    "status_changes",
    metadata,
    Column("key", Key, primary_key=True),
    Column("query_key", Key, ForeignKey("queries.key"), nullable=False),
    Column("at", Seconds, nullable=False),
    Column("status", CleanText, nullable=False),
    Column("reason", CleanText, nullable=False),
    Index(None, "query_key", "at"),
)

actions = Table(
    "actions",
    metadata,
    Column("key", Key, primary_key=True),
    Column("id", CleanText, nullable=False, unique=True),
    Column("query_id", CleanText, nullable=False),
    Column("app", CleanText, nullable=False),
    Column("name", CleanText),
    Column("action", CleanText, nullable=False),
    Column("actor", CleanText, nullable=False),
    Column("state", CleanText, nullable=False),
    Column("requested_at", Seconds, nullable=False),
    Column("deadline_at", Seconds, nullable=False),
    Column("request_reason", CleanText, nullable=False),
    Column("reason", CleanText, nullable=False),
    Column("drain", Boolean(create_constraint=False), nullable=False),
    Column("overrides", Json, nullable=False),
    Column("evidence", Json, nullable=False),
    Column("agent", CleanText),
    Column("idempotency_key", CleanText),
    Column("delivered_at", Seconds),
    Column("finished_at", Seconds),
    Column("previous_run_id", CleanText),
    Column("previous_batch_id", Key),
    UniqueConstraint("query_id", "idempotency_key"),
    Index(None, "query_id", "key"),
    Index(None, "state"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", CleanText, primary_key=True),
    Column("name", CleanText, nullable=False),
    Column("role", CleanText, nullable=False),
    Column("digest", CleanText, nullable=False, unique=True),
    Column("prefix", CleanText, nullable=False),
    Column("app", CleanText),
    Column("created_at", Seconds, nullable=False),
    Column("expires_at", Seconds),
    Column("revoked_at", Seconds),
    Column("may_impersonate", Boolean, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("key", Key, primary_key=True),
    Column("at", Seconds, nullable=False),
    Column("actor", CleanText, nullable=False),
    Column("via", CleanText, nullable=False),
    Column("action", CleanText, nullable=False),
    Column("target", CleanText, nullable=False),
    Column("detail", Json, nullable=False),
)

#: One row per alert episode, from pending to resolved; a pending alert that never fired is deleted. `rule` names
#: the rule within its group; `query_id` is the alert's label and serves the history of a query.
alerts = Table(
    "alerts",
    metadata,
    Column("key", Key, primary_key=True),
    Column("group", CleanText, nullable=False),
    Column("rule", CleanText, nullable=False),
    Column("name", CleanText, nullable=False),
    Column("fingerprint", CleanText, nullable=False),
    Column("labels", Json, nullable=False),
    Column("annotations", Json, nullable=False),
    Column("value", Seconds, nullable=False),
    Column("state", CleanText, nullable=False),
    Column("active_at", Seconds, nullable=False),
    Column("fired_at", Seconds),
    Column("resolved_at", Seconds),
    Column("reason", CleanText, nullable=False),
    Column("query_id", CleanText),
    Index(None, "state", "resolved_at"),
    Index(None, "fingerprint"),
    Index(None, "query_id", "fired_at"),
)

#: Time of the last evaluation of each rule group.
rule_groups = Table(
    "rule_groups",
    metadata,
    Column("group", CleanText, primary_key=True),
    Column("evaluated_at", Seconds, nullable=False),
)

#: The last notification of each receiver about each group of alerts, like Alertmanager's nflog: a restarted server
#: does not notify twice. `digest` is the key, since a group key may exceed PostgreSQL's limit for an index entry.
notification_log = Table(
    "notification_log",
    metadata,
    Column("digest", CleanText, primary_key=True),
    Column("group_key", CleanText, nullable=False),
    Column("receiver", CleanText, nullable=False),
    Column("firing", Json, nullable=False),
    Column("resolved", Json, nullable=False),
    Column("at", Seconds, nullable=False),
)

#: Every notification with its outcome: sent, failed or not sent, and why.
notifications = Table(
    "notifications",
    metadata,
    Column("key", Key, primary_key=True),
    Column("at", Seconds, nullable=False),
    *(Column(name, CleanText, nullable=False) for name in ("receiver", "group_key", "outcome", "reason")),
    Column("fingerprints", Json, nullable=False),
    Index(None, "at"),
)

silences = Table(
    "silences",
    metadata,
    Column("key", Key, primary_key=True),
    Column("id", CleanText, nullable=False, unique=True),
    Column("matchers", Json, nullable=False),
    *(Column(name, Seconds, nullable=False) for name in ("starts_at", "ends_at")),
    Column("created_by", CleanText, nullable=False),
    Column("comment", CleanText, nullable=False),
    Column("updated_at", Seconds, nullable=False),
    Index(None, "ends_at"),
)

acknowledgements = Table(
    "acknowledgements",
    metadata,
    Column("key", Key, primary_key=True),
    Column("fingerprint", CleanText, nullable=False),
    Column("fired_at", Seconds, nullable=False),
    Column("by", CleanText, nullable=False),
    Column("at", Seconds, nullable=False),
    Column("comment", CleanText, nullable=False),
    Index(None, "fingerprint"),
)

#: The newest checkpoint inventories of each query. `document`: the whole inventory, zstd; only the newest keep it.
inventories = Table(
    "inventories",
    metadata,
    Column("key", Key, primary_key=True),
    Column("query_id", CleanText, nullable=False),
    Column("run_id", CleanText),
    Column("checkpoint", CleanText, nullable=False),
    Column("taken_at", Seconds, nullable=False),
    Column("summary", Json, nullable=False),
    Column("document", LargeBinary),
    Index(None, "query_id", "taken_at"),
)

#: The doctor's report on the newest inventory of each query.
checkpoint_reports = Table(
    "checkpoint_reports",
    metadata,
    Column("query_id", CleanText, primary_key=True),
    Column("taken_at", Seconds, nullable=False),
    Column("analyzed_at", Seconds, nullable=False),
    Column("verdict", CleanText, nullable=False),
    Column("report", Json, nullable=False),
)

#: The shape of each run of a query and its comparison with the previous run.
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

#: Baselines of each query. `quantiles`: float32, zlib. A set is `current` once all of its chunks are stored.
baselines = Table(
    "baselines",
    metadata,
    Column("key", Key, primary_key=True),
    Column("set_name", CleanText, nullable=False),
    Column("chunk", Integer, nullable=False),
    Column("current", Boolean, nullable=False),
    *(Column(name, CleanText, nullable=False) for name in ("app", "query", "query_id")),
    Column("made_at", Seconds),
    Column("quantiles", LargeBinary, nullable=False),
    Index(None, "set_name", "chunk"),
)
