"""The rule engine as a pure library: labels, PromQL, rule files, alert state, routing, notification.

The server uses it; it imports nothing else of this project. Only `alerts.notify.receivers` does I/O.
"""
