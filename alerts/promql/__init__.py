"""PromQL of our own: text to tree (`parser`), tree and series to values (`evaluator`).

Called by the rule engine and by the server's query API; needs numpy and `alerts.matching.labels`, does no I/O.
"""
