"""Import of Spark event logs into the lake."""
