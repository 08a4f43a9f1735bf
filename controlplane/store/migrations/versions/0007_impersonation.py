"""Add the tokens' right to act for people. The local administrator's token has it, as in a new store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "tokens", sa.Column("may_impersonate", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.execute("UPDATE tokens SET may_impersonate = true WHERE name = 'local admin' AND role = 'admin'")
