"""Add bulk actions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bulk_actions",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("query_ids", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.Float(precision=53), nullable=False),
        sa.Column("drain", sa.Boolean(), nullable=False),
        sa.Column("max_parallel", sa.Integer(), nullable=False),
        sa.Column("halt_on_failure", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.Float(precision=53)),
        sa.Column("why", sa.Text(), nullable=False),
    )
    op.create_index("ix_bulk_actions_requested_at", "bulk_actions", ["requested_at"])
