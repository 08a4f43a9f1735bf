"""The rule engine as a pure library: labels, PromQL, rule files, alert state, routing, notification.

Called by the server (so far for labels); calls nothing of ours. Only `alerts.notify.receivers` does I/O.
"""
