"""Actions on queries: stop, start and restart, from the request to the verified outcome.

Called by the API and the scheduler; calls the store, the window and `controlplane.health`. The pure modules
`transitions`, `guards`, `checkpoint_gate` and `verification` decide, `service` applies their decisions and `outbox`
wakes the agents' long polls.
"""
