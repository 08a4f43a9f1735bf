"""Parts of the Query page: panels, charts, timeline, checkpoint panel."""
