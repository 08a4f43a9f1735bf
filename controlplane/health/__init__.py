"""Query status: pure functions from a query's recent reports to one status and one sentence."""
