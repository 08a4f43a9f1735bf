"""Alerts, what was told of them, silences and acknowledgements."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _key(name: str, **options: Any) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, **options)


def _text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _seconds(name: str, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Float(precision=53), nullable=nullable)


def upgrade() -> None:
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
        "told",
        _text("digest"),
        _text("group_key"),
        _text("receiver"),
        _text("firing"),
        _text("resolved"),
        _seconds("at"),
        sa.PrimaryKeyConstraint("digest", name="pk_told"),
    )
    op.create_table(
        "notifications",
        _key("key"),
        _seconds("at"),
        _text("receiver"),
        _text("group_key"),
        _text("outcome"),
        _text("words"),
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


def downgrade() -> None:
    raise NotImplementedError("go back by restoring a backup")
