"""Notification: whether a group of alerts is to be told, why, in which words, and to whom.

Called by the server; calls the rest of `alerts`. Only `alerts.notify.receivers` does I/O.
"""
