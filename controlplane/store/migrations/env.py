"""Alembic environment: runs the migrations on the connection passed by `controlplane.store.engine.upgrade`."""

from alembic import context

from controlplane.store import series  # noqa: F401 - its table is part of the metadata
from controlplane.store.dashboard import saved_views  # noqa: F401
from controlplane.store.shared.lease import metadata
from controlplane.store.supervision import (  # noqa: F401
    apps,
    bulk_actions,
    checkpoint_leases,
    desired,
    incidents,
    ledger,
    policies,
)

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
