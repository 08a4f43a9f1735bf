"""What changed about a query before its trouble began."""
