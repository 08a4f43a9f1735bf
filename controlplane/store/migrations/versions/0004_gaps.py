"""Which batches of a query were reported."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("queries") as table:
        table.add_column(sa.Column("reported", sa.Text(), nullable=True))


def downgrade() -> None:
    raise NotImplementedError("go back by restoring a backup")
