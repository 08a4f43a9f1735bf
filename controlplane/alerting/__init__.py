"""Alerting: rules are evaluated over the series, alerts live in the store, and people are told.

Built and run by `controlplane.app`, asked by `controlplane.api`; all decisions are those of the library
`alerts`, which this room feeds, remembers for and wakes.
"""
