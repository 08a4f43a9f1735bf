"""What we tell a child process before its program runs: to end when we are killed.

Called by `controlplane.cli.serve` for the page and by the demonstration for all of its parts. Only Linux
can; elsewhere a child whose parent was killed lives on. Run as a program (`python -m controlplane.runtime.child_processes COMMAND…`)
it says so of itself and becomes the command: for parents with threads, in which no code may run before `exec`.
"""

from __future__ import annotations

import ctypes
import os
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


def main(command: list[str]) -> None:
    """Become `command`, which ends with the parent. The parent's id comes first: it may have ended already."""
    ends_with_us()()
    if os.getppid() == int(command[0]):
        os.execvp(command[1], command[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
