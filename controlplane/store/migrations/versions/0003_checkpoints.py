"""Inventories of checkpoints, what the doctor says of them, and the shapes of runs."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _key(name: str, **options: Any) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, **options)


def _text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _seconds(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Float(precision=53), nullable=False)


def upgrade() -> None:
    op.create_table(
        "inventories",
        _key("key"),
        _text("query_id"),
        _text("run_id", nullable=True),
        _text("checkpoint"),
        _seconds("taken_at"),
        _text("header"),
        sa.Column("document", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("key", name="pk_inventories"),
    )
    op.create_index("ix_inventories_query_id_taken_at", "inventories", ["query_id", "taken_at"], unique=False)
    op.create_table(
        "checkpoint_verdicts",
        _text("query_id"),
        _seconds("taken_at"),
        _seconds("judged_at"),
        _text("verdict"),
        _text("judgement"),
        sa.PrimaryKeyConstraint("query_id", name="pk_checkpoint_verdicts"),
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


def downgrade() -> None:
    raise NotImplementedError("go back by restoring a backup")
