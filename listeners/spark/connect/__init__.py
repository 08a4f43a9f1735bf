"""Adapter to Spark Connect sessions (gRPC)."""
