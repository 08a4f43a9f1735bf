"""Structured Streaming job that ingests agents' events from a landing zone into the lake and the store."""
