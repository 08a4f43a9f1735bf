"""The store: agents, queries, events, actions and alerts in SQLite or PostgreSQL.

Called by `controlplane.ingest`, `controlplane.events.window`, the services and the API. All changes go through
`writer`; reads take a connection of their own.
"""
