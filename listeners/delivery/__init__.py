"""Event delivery: inbox, spool on disk, transport to the server."""
