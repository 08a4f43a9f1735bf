"""The server's own time series: recent samples on a grid for rules, older ones replayed from stored events.

`service` is the entry point; the rule scheduler and the query API get their SeriesSource from it.
"""
