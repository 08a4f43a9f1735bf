"""Process-level services of the server: scheduler, tokens, Java, data directory, child processes."""
