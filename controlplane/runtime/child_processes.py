"""Child processes that end with their parent, by Linux' parent-death signal.

Called by `controlplane.cli.serve` for the UI and by the demo for all of its processes. On other systems a child
survives a parent that is killed. Run as a program (`python -m controlplane.runtime.child_processes PARENT_PID
COMMAND…`) the module sets the signal for itself and becomes the command; parents with threads use that, as no Python
code may run in their child before `exec`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def die_with_parent() -> Callable[[], None]:
    """A `preexec_fn`: the child gets SIGTERM when the thread that started it ends."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def prepare() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    return prepare


def main(command: list[str]) -> None:
    """Exec the command so that it ends with the parent. The first item is the parent's pid, which may have ended."""
    die_with_parent()()
    if os.getppid() == int(command[0]):
        os.execvp(command[1], command[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
