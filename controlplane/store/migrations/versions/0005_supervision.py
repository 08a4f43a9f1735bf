"""Add policies, desired states and the ledger of decisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

Key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "policies",
        sa.Column("version", Key, primary_key=True),
        sa.Column("at", sa.Float(precision=53), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
    )
    op.create_table(
        "desired_states",
        sa.Column("query_id", sa.Text(), primary_key=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(precision=53), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
    )
    op.create_table(
        "ledger",
        sa.Column("key", Key, primary_key=True),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(precision=53), nullable=False),
        sa.Column("query_id", sa.Text(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("acted", sa.Boolean(), nullable=False),
        sa.Column("action_id", sa.Text()),
        sa.Column("run_id", sa.Text()),
        sa.Column("condition", sa.Text()),
        sa.Column("trouble_since", sa.Float(precision=53), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text()),
        sa.Column("outcome_at", sa.Float(precision=53)),
        sa.Column("outcome_why", sa.Text(), nullable=False),
        sa.Column("assessment", sa.Text()),
        sa.UniqueConstraint("id", name="uq_ledger_id"),
    )
    for columns in (["query_id", "at"], ["at"], ["outcome"]):
        op.create_index(f"ix_ledger_{'_'.join(columns)}", "ledger", columns)
