"""First schema of the store."""

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
    _create_fleet_tables()
    _create_event_tables()
    _create_action_tables()
    _create_alerting_tables()
    _create_analysis_tables()


def _create_fleet_tables() -> None:
    """Agents, queries, runs and the status history."""
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
        _seconds("described_at"),
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
        "queries",
        _key("key"),
        _text("query_id"),
        _text("app"),
        _text("name", nullable=True),
        _text("labels"),
        _seconds("first_seen_at"),
        _seconds("described_at"),
        _text("newest_run", nullable=True),
        _seconds("start_failed_at", nullable=True),
        _text("start_failure", nullable=True),
        _seconds("retired_at", nullable=True),
        _text("totals"),
        _text("reported", nullable=True),
        sa.PrimaryKeyConstraint("key", name="pk_queries"),
        sa.UniqueConstraint("query_id", name="uq_queries_query_id"),
    )
    op.create_index("ix_queries_app_name", "queries", ["app", "name"], unique=False)
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


def _create_event_tables() -> None:
    """Events, the index of progress reports, compression dictionaries and counters."""
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
        "dictionaries",
        sa.Column("id", sa.Integer(), nullable=False),
        _seconds("created_at"),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dictionaries"),
    )
    op.create_table(
        "counters", _text("name"), _key("value"), sa.PrimaryKeyConstraint("name", name="pk_counters")
    )


def _create_action_tables() -> None:
    """Actions, tokens and the audit log."""
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


def _create_alerting_tables() -> None:
    """Alerts, notifications, silences and acknowledgements."""
    op.create_table(
        "alerts",
        _key("key"),
        _text("group"),
        _text("rule"),
        _text("name"),
        _text("fingerprint"),
        _text("labels"),
        _text("annotations"),
        _seconds("value"),
        _text("state"),
        _seconds("active_at"),
        _seconds("fired_at", nullable=True),
        _seconds("resolved_at", nullable=True),
        _text("reason"),
        _text("query_id", nullable=True),
        sa.PrimaryKeyConstraint("key", name="pk_alerts"),
    )
    op.create_index("ix_alerts_state_resolved_at", "alerts", ["state", "resolved_at"], unique=False)
    op.create_index("ix_alerts_fingerprint", "alerts", ["fingerprint"], unique=False)
    op.create_index("ix_alerts_query_id_fired_at", "alerts", ["query_id", "fired_at"], unique=False)
    op.create_table(
        "rule_groups",
        _text("group"),
        _seconds("evaluated_at"),
        sa.PrimaryKeyConstraint("group", name="pk_rule_groups"),
    )
    op.create_table(
        "notification_log",
        _text("digest"),
        _text("group_key"),
        _text("receiver"),
        _text("firing"),
        _text("resolved"),
        _seconds("at"),
        sa.PrimaryKeyConstraint("digest", name="pk_notification_log"),
    )
    op.create_table(
        "notifications",
        _key("key"),
        _seconds("at"),
        _text("receiver"),
        _text("group_key"),
        _text("outcome"),
        _text("reason"),
        _text("fingerprints"),
        sa.PrimaryKeyConstraint("key", name="pk_notifications"),
    )
    op.create_index("ix_notifications_at", "notifications", ["at"], unique=False)
    op.create_table(
        "silences",
        _key("key"),
        _text("id"),
        _text("matchers"),
        _seconds("starts_at"),
        _seconds("ends_at"),
        _text("created_by"),
        _text("comment"),
        _seconds("updated_at"),
        sa.PrimaryKeyConstraint("key", name="pk_silences"),
        sa.UniqueConstraint("id", name="uq_silences_id"),
    )
    op.create_index("ix_silences_ends_at", "silences", ["ends_at"], unique=False)
    op.create_table(
        "acknowledgements",
        _key("key"),
        _text("fingerprint"),
        _seconds("fired_at"),
        _text("by"),
        _seconds("at"),
        _text("comment"),
        sa.PrimaryKeyConstraint("key", name="pk_acknowledgements"),
    )
    op.create_index("ix_acknowledgements_fingerprint", "acknowledgements", ["fingerprint"], unique=False)


def _create_analysis_tables() -> None:
    """Checkpoint inventories and reports, query shapes and baselines."""
    op.create_table(
        "inventories",
        _key("key"),
        _text("query_id"),
        _text("run_id", nullable=True),
        _text("checkpoint"),
        _seconds("taken_at"),
        _text("summary"),
        sa.Column("document", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("key", name="pk_inventories"),
    )
    op.create_index("ix_inventories_query_id_taken_at", "inventories", ["query_id", "taken_at"], unique=False)
    op.create_table(
        "checkpoint_reports",
        _text("query_id"),
        _seconds("taken_at"),
        _seconds("analyzed_at"),
        _text("verdict"),
        _text("report"),
        sa.PrimaryKeyConstraint("query_id", name="pk_checkpoint_reports"),
    )
    op.create_table(
        "shapes",
        _key("key"),
        _text("run_id"),
        _text("query_id"),
        _text("app"),
        _text("name", nullable=True),
        _text("checkpoint", nullable=True),
        _seconds("at"),
        _text("shape"),
        _text("comparison", nullable=True),
        sa.PrimaryKeyConstraint("key", name="pk_shapes"),
        sa.UniqueConstraint("run_id", name="uq_shapes_run_id"),
    )
    op.create_index("ix_shapes_query_id_at", "shapes", ["query_id", "at"], unique=False)
    op.create_index("ix_shapes_app_name_at", "shapes", ["app", "name", "at"], unique=False)
    op.create_table(
        "baselines",
        _key("key"),
        _text("set_name"),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        _text("app"),
        _text("query"),
        _text("query_id"),
        _seconds("made_at", nullable=True),
        sa.Column("quantiles", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_baselines"),
    )
    op.create_index("ix_baselines_set_name_chunk", "baselines", ["set_name", "chunk"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("downgrade by restoring a backup of the store")
