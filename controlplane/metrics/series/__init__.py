"""The scrape of ourselves: the series that rules read, on one grid; older ones from stored events.

`room` is what the plane holds; the rules tick and the query API ask it for a SeriesSource.
"""
