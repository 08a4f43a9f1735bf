"""Stored policies, desired states, ledger and applications, each with its table. Called by their services and the API."""
