"""The error of the decoders."""

from __future__ import annotations


class Corrupt(ValueError):
    """The bytes are not what Spark wrote; the message is one short clause."""
