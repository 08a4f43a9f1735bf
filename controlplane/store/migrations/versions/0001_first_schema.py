"""The first schema."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _key(name: str, nullable: bool = False, **options: Any) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=nullable, **options)


def _text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _seconds(name: str, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Float(precision=53), nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "actions",
        _key("key"),
        _text("id"),
        _text("query_id"),
        _text("app"),
        _text("name", nullable=True),
        _text("action"),
        _text("actor"),
        _text("state"),
        _seconds("requested_at"),
        _seconds("deadline_at"),
        _text("request_reason"),
        _text("reason"),
        sa.Column("drain", sa.Boolean(), nullable=False),
        _text("overrides"),
        _text("evidence"),
        _text("agent", nullable=True),
        _text("idempotency_key", nullable=True),
        _seconds("delivered_at", nullable=True),
        _seconds("finished_at", nullable=True),
        _text("previous_run_id", nullable=True),
        _key("previous_batch_id", nullable=True),
        sa.PrimaryKeyConstraint("key", name="pk_actions"),
        sa.UniqueConstraint("id", name="uq_actions_id"),
        sa.UniqueConstraint("query_id", "idempotency_key", name="uq_actions_query_id_idempotency_key"),
    )
    op.create_index("ix_actions_query_id_key", "actions", ["query_id", "key"], unique=False)
    op.create_index("ix_actions_state", "actions", ["state"], unique=False)
    op.create_table(
        "agents",
        _key("key"),
        _text("agent"),
        _text("app"),
        _text("app_id", nullable=True),
        _text("spark_version", nullable=True),
        _text("master", nullable=True),
        _text("ui_url", nullable=True),
        _text("actions"),
        _seconds("first_seen_at"),
        _seconds("last_seen_at"),
        _seconds("told_at"),
        _seconds("polled_at", nullable=True),
        _seconds("ended_at", nullable=True),
        _text("end_reason", nullable=True),
        _text("end_exception", nullable=True),
        _seconds("clock_offset"),
        _key("high_seq"),
        _key("pruned_seq"),
        _text("dropped"),
        _text("info"),
        sa.PrimaryKeyConstraint("key", name="pk_agents"),
        sa.UniqueConstraint("agent", name="uq_agents_agent"),
    )
    op.create_table(
        "audit",
        _key("key"),
        _seconds("at"),
        _text("actor"),
        _text("via"),
        _text("action"),
        _text("target"),
        _text("detail"),
        sa.PrimaryKeyConstraint("key", name="pk_audit"),
    )
    op.create_table(
        "batches",
        _key("event_id", autoincrement=False),
        _key("query_key"),
        _key("run_key"),
        _key("batch_id"),
        _seconds("trigger_at"),
        _seconds("at"),
        sa.PrimaryKeyConstraint("event_id", name="pk_batches"),
        sa.UniqueConstraint(
            "run_key", "batch_id", "trigger_at", name="uq_batches_run_key_batch_id_trigger_at"
        ),
    )
    op.create_index("ix_batches_query_key_at", "batches", ["query_key", "at"], unique=False)
    op.create_table(
        "counters", _text("name"), _key("value"), sa.PrimaryKeyConstraint("name", name="pk_counters")
    )
    op.create_table(
        "dictionaries",
        sa.Column("id", sa.Integer(), nullable=False),
        _seconds("made_at"),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dictionaries"),
    )
    op.create_table(
        "events",
        _key("id", autoincrement=False),
        _key("agent_key"),
        _key("seq"),
        _seconds("at"),
        _text("type"),
        _key("query_key", nullable=True),
        _key("run_key", nullable=True),
        sa.Column("dictionary", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sa.UniqueConstraint("agent_key", "seq", name="uq_events_agent_key_seq"),
    )
    op.create_index("ix_events_query_key_id", "events", ["query_key", "id"], unique=False)
    op.create_table(
        "queries",
        _key("key"),
        _text("query_id"),
        _text("app"),
        _text("name", nullable=True),
        _text("labels"),
        _seconds("first_seen_at"),
        _seconds("told_at"),
        _text("newest_run", nullable=True),
        _seconds("start_failed_at", nullable=True),
        _text("start_failure", nullable=True),
        _seconds("retired_at", nullable=True),
        _text("totals"),
        sa.PrimaryKeyConstraint("key", name="pk_queries"),
        sa.UniqueConstraint("query_id", name="uq_queries_query_id"),
    )
    op.create_index("ix_queries_app_name", "queries", ["app", "name"], unique=False)
    op.create_table(
        "tokens",
        _text("id"),
        _text("name"),
        _text("role"),
        _text("digest"),
        _text("prefix"),
        _text("app", nullable=True),
        _seconds("created_at"),
        _seconds("expires_at", nullable=True),
        _seconds("revoked_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )
    op.create_table(
        "runs",
        _key("key"),
        _text("run_id"),
        _key("query_key"),
        _key("agent_key"),
        _seconds("started_at"),
        _seconds("last_event_at"),
        _seconds("ended_at", nullable=True),
        _text("ended_by", nullable=True),
        _text("end", nullable=True),
        _key("first_batch_id", nullable=True),
        _key("last_batch_id", nullable=True),
        _key("batches"),
        _text("failure_text", nullable=True),
        _text("error_class", nullable=True),
        _seconds("idle_at", nullable=True),
        _text("status", nullable=True),
        _text("naming", nullable=True),
        _text("facts"),
        sa.ForeignKeyConstraint(["agent_key"], ["agents.key"], name="fk_runs_agent_key"),
        sa.ForeignKeyConstraint(["query_key"], ["queries.key"], name="fk_runs_query_key"),
        sa.PrimaryKeyConstraint("key", name="pk_runs"),
        sa.UniqueConstraint("run_id", name="uq_runs_run_id"),
    )
    op.create_index("ix_runs_agent_key_ended_at", "runs", ["agent_key", "ended_at"], unique=False)
    op.create_index("ix_runs_query_key_started_at", "runs", ["query_key", "started_at"], unique=False)
    op.create_table(
        "status_changes",
        _key("key"),
        _key("query_key"),
        _seconds("at"),
        _text("status"),
        _text("reason"),
        sa.ForeignKeyConstraint(["query_key"], ["queries.key"], name="fk_status_changes_query_key"),
        sa.PrimaryKeyConstraint("key", name="pk_status_changes"),
    )
    op.create_index("ix_status_changes_query_key_at", "status_changes", ["query_key", "at"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("go back by restoring a backup")
