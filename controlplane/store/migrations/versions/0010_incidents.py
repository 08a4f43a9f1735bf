"""Add incidents: queries that failed with one cause."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "incidents",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("began_at", sa.Float(precision=53), nullable=False),
        sa.Column("ended_at", sa.Float(precision=53)),
        sa.Column("members", sa.Text(), nullable=False),
        sa.Column("trial", sa.Text()),
    )
    op.create_index("ix_incidents_began_at", "incidents", ["began_at"])
    op.create_index("ix_incidents_ended_at", "incidents", ["ended_at"])
