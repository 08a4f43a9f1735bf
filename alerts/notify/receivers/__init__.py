"""Receivers: where messages go. One kind, one file; each meets the protocol of `alerts.notify.receivers.base`."""
