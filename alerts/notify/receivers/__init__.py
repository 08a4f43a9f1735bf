"""Receivers of messages, one module per kind; each implements `alerts.notify.receivers.base.Receiver`."""
