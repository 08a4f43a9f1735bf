"""Alerting service: evaluate rules over the series, store alerts, send notifications.

Built and run by `controlplane.app`, queried by `controlplane.api`. The library `alerts` makes all decisions; this
package supplies its inputs, stores its states and schedules it.
"""
