"""Ingest: a Structured Streaming job that brings agent events from a landing zone or Kafka to the lake and
the store.
"""
