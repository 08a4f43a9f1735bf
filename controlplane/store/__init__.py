"""The store: what was said and done, in SQLite or PostgreSQL.

Called by `controlplane.ingest.service`, `controlplane.events.window` and the API. `writer` is the only way to
change anything; reads take a connection of their own. Calls `controlplane.model` and
`controlplane.events.lifecycle` for the values it keeps.
"""
