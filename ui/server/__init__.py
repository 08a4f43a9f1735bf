"""The Server page: stages, store, quotas and receivers of the servers that the dashboard reads."""
