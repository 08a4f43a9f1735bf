"""Actions on queries: asked for, guarded, sent to the agent, verified, on record.

Called by the API and the scheduler; calls the store, the window and `controlplane.health.failures`. What is
decided is decided in pure functions (`actions`, `guards`, `verification`); `service` acts on it and
`outbox` wakes the agents' held polls.
"""
