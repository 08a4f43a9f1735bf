"""Free ports for servers that tests start as processes."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """A free port below the ephemeral range: no connection takes it before the server does, nor while it restarts."""
    while True:
        with socket.socket() as probe:
            try:
                port = random.randint(20_000, 32_000)
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
