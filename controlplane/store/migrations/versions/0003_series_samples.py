"""Store the samples of series that cannot be computed again from events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "series_samples",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("start", sa.Float(precision=53), nullable=False),
        sa.Column("end", sa.Float(precision=53), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
    )
    op.create_index("ix_series_samples_name_end", "series_samples", ["name", "end"])
    op.create_index("ix_series_samples_end", "series_samples", ["end"])
