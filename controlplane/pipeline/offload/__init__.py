"""Offload: a job that moves events from the server's store to the lake."""
