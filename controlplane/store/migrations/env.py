"""Runs the migrations on the connection that `controlplane.store.engine.upgrade` hands over."""

from alembic import context

from controlplane.store import findings  # noqa: F401 (puts its tables into the metadata)
from controlplane.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
