"""Alerting and recording rules: model, rule-file loader, shipped rule pack.

Used by the server and `alerts.engine`; imports `alerts.promql`, `alerts.templates` and `alerts.yaml`.
"""
