"""Add saved views of the Fleet page."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_views",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("saved_by", sa.Text(), nullable=False),
        sa.Column("saved_at", sa.Float(precision=53), nullable=False),
    )
