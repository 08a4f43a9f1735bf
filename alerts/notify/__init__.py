"""Notification pipeline: configuration, decision, message, stages and receivers.

Used by the server; imports the rest of `alerts`. Only `alerts.notify.receivers` does I/O.
"""
