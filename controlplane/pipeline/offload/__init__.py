"""Job that moves events past the hot retention from the store to the lake."""
