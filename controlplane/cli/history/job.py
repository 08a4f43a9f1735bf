"""Entry point for spark-submit: `spark-submit … job.py import PATH… --lake URL`, with the commands of
`controlplane history`.

Spark runs this file as a script. Where the package is not installed, it is found relative to this file or in
the zip given by `--py-files`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    """Run one command of `controlplane history` and return its exit code."""
    from controlplane.cli.main import run

    return run(["history", *arguments])


def put_package_on_path(file: Path, path: list[str]) -> None:
    """Replace this file's directory, which Python puts first on its path, by the one that holds the package.

    The modules beside this file would otherwise be importable under their bare names.
    """
    here = file.parent
    if here.parts[-2:] == ("cli", "history"):
        path[:] = [str(file.parents[3]), *(item for item in path if Path(item or ".").resolve() != here)]


if __name__ == "__main__":
    put_package_on_path(Path(__file__).resolve(), sys.path)
    sys.exit(main(sys.argv[1:]))
