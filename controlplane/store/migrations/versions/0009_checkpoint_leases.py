"""Add the leases of checkpoints: one writer for each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoint_leases",
        sa.Column("checkpoint", sa.Text(), primary_key=True),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("query_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("taken_at", sa.Float(precision=53), nullable=False),
        sa.Column("previous_app", sa.Text()),
    )
