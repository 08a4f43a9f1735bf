"""What protects an exposed server besides tokens: people whom the dashboard names, and TLS."""
