"""Run an unmodified program with the agent: `python -m listeners.run program.py [args…]`, or `-m module [args…]`.

This process becomes `python program.py [args…]` with the agent's `site` directory first on PYTHONPATH, whose
`sitecustomize` attaches the agent. `__main__`, arguments, exit code and signals are therefore plain Python's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from listeners import packaging

DEFAULT_SERVER = "http://127.0.0.1:8420"


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the program. Returns 2 after one line on standard error where the arguments name no program."""
    arguments = sys.argv[1:] if arguments is None else arguments
    problem = usage_problem(arguments)
    if problem:
        print(f"controlplane run: {problem}", file=sys.stderr)
        return 2
    options: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = [sys.executable, *options, *arguments]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment(os.environ, packaging.site_directory()))


def usage_problem(arguments: Sequence[str]) -> str | None:
    """What is wrong with the arguments; None where they name a program."""
    if not arguments:
        return "no program named; give a Python program and its arguments"
    if sys.flags.ignore_environment:
        return "the options -E and -I switch off PYTHONPATH, by which the agent is found; leave them out"
    if arguments[0] in ("-m", "-c"):
        return None if len(arguments) > 1 else f"nothing follows {arguments[0]}"
    if not os.path.exists(arguments[0]):
        return f"{arguments[0]} is not a file; give a Python program and its arguments"
    return None


def environment(present: Mapping[str, str], site: str) -> dict[str, str]:
    """The program's environment: the present one with `site` first on PYTHONPATH and a default server."""
    path = os.pathsep.join([site, *filter(None, [present.get("PYTHONPATH")])])
    return {"CONTROLPLANE_URL": DEFAULT_SERVER, **present, "PYTHONPATH": path}


if __name__ == "__main__":
    sys.exit(main())
