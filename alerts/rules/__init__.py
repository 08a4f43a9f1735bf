"""Rules: what they are, how rule files are read, the pack that ships.

Called by the server and by `alerts.engine`; calls `alerts.promql`, `alerts.templates.expansion` and `alerts.yaml`.
"""
