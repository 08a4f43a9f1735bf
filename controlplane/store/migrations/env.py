"""Alembic environment: runs the migrations on the connection passed by `controlplane.store.engine.upgrade`."""

from alembic import context

from controlplane.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
