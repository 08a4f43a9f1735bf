"""Statements of servers that share a database: the lease of the active one, and what the standby follows."""
