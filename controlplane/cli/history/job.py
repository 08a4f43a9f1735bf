"""The entry for spark-submit: `spark-submit … job.py import PATH… --lake URL`, the commands of `controlplane history`.

Started by Spark as a plain file. Where the package is not installed it is found beside the file, or in the zip given
by `--py-files`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    """Run one command of `controlplane history`; its exit code."""
    from controlplane.cli.main import run

    return run(["history", *arguments])


def _find_the_package(file: Path, path: list[str]) -> None:
    """Python puts the folder of the file first on its path, where our modules would pass for others of their names."""
    here, root = file.parent, file.parents[2] if len(file.parents) > 2 else file.parent
    if here.parts[-2:] != ("controlplane", "pipeline"):
        return
    path[:] = [str(root), *(one for one in path if Path(one or ".").resolve() != here)]


if __name__ == "__main__":
    _find_the_package(Path(__file__).resolve(), sys.path)
    sys.exit(main(sys.argv[1:]))
