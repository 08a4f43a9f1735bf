"""What is usual for a query at each hour of the week."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "baselines",
        sa.Column("key", key, nullable=False),
        sa.Column("set_name", sa.Text(), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("query_id", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Float(precision=53), nullable=True),
        sa.Column("figures", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_baselines"),
    )
    op.create_index("ix_baselines_set_name_chunk", "baselines", ["set_name", "chunk"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("go back by restoring a backup")
