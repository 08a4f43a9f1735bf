"""Add the declared applications."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "apps",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("declared_at", sa.Float(53), nullable=False),
        sa.Column("declared_by", sa.Text(), nullable=False),
        sa.Column("declared_desired", sa.Text(), nullable=False),
        sa.Column("desired", sa.Text(), nullable=False),
        sa.Column("desired_at", sa.Float(53), nullable=False),
        sa.Column("desired_by", sa.Text(), nullable=False),
        sa.Column("driver", sa.Text()),
        sa.Column("action", sa.Text()),
        sa.PrimaryKeyConstraint("key", name="pk_apps"),
        sa.UniqueConstraint("name", name="uq_apps_name"),
    )
