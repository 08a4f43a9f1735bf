"""Parts of the Query page: head, charts, timeline, checkpoint panel, tables."""
