"""`python -m listeners.run program.py [args…]`, or `-m module [args…]`: an unmodified program, with the agent attached.

This process becomes `python program.py [args…]` with `listeners/site` first on PYTHONPATH, whose `sitecustomize`
attaches the agent: so `__main__`, arguments, exit code and signals are plain Python's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from listeners import packaging

DEFAULT_SERVER = "http://127.0.0.1:8420"


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the program; returns only where there is none to become: then 2, with one line that says why."""
    arguments = sys.argv[1:] if arguments is None else arguments
    mistake = mistake_in(arguments)
    if mistake:
        print(f"controlplane run: {mistake}", file=sys.stderr)
        return 2
    options: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = [sys.executable, *options, *arguments]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment(os.environ, packaging.site_directory()))


def mistake_in(arguments: Sequence[str]) -> str | None:
    if not arguments:
        return "no program is named; give a Python program and its arguments"
    if sys.flags.ignore_environment:
        return "the agent is found by PYTHONPATH, which -E and -I switch off; leave them out"
    if arguments[0] in ("-m", "-c"):
        return None if len(arguments) > 1 else f"nothing follows {arguments[0]}"
    if not os.path.exists(arguments[0]):
        return f"{arguments[0]} is not a file; give a Python program and its arguments"
    return None


def environment(present: Mapping[str, str], site: str) -> dict[str, str]:
    """The program's environment: as it is, with `site` first on PYTHONPATH and a server to tell."""
    path = os.pathsep.join([site, *filter(None, [present.get("PYTHONPATH")])])
    return {"CONTROLPLANE_URL": DEFAULT_SERVER, **present, "PYTHONPATH": path}


if __name__ == "__main__":
    sys.exit(main())
