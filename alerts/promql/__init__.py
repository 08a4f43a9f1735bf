"""PromQL engine: parser (`syntax.parser`) and vectorized evaluator (`evaluator`).

Used by the rule engine and the server's query API; needs NumPy and `alerts.matching`, does no I/O.
"""
