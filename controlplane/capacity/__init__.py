"""What a query can carry: load, headroom, bottleneck, runway of state and retention, advice."""
