"""Ingest of agents' events: validate, deduplicate, store in batches, acknowledge."""
