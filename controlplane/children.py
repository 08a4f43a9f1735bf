"""What we tell a child process before its program runs: to end when we are killed.

Called by `controlplane.cli.serve` for the page and by the demonstration for all of its parts. Only Linux
can; elsewhere a child whose parent was killed lives on.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def ends_with_us() -> Callable[[], None]:
    """For `preexec_fn`: the child gets SIGTERM when the thread that started it ends."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def prepare() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    return prepare
