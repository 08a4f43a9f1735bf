"""Commands that check and repair checkpoints: doctor, preflight, rewind, repair, undo."""
