"""What the command line and the demo share: HTTP client, errors, tables."""
