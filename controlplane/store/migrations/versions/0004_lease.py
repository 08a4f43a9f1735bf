"""Add the lease of the active server, free at first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    lease = op.create_table(
        "lease",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("since", sa.Float(53), nullable=False),
        sa.Column("expires_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_lease"),
    )
    op.bulk_insert(lease, [{"number": 0, "holder": "", "url": "", "since": 0.0, "expires_at": 0.0}])
