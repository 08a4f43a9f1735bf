"""Two servers on one database: who is active, and how the standby follows the store."""
