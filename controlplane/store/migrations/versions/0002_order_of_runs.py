"""Order the runs of an agent by its sequence numbers, and keep the times of its recent polls."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("first_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite")))
    op.add_column("agents", sa.Column("polls", sa.Text()))
    op.drop_column("agents", "polled_at")
