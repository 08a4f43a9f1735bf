"""Files of the agent for a driver: the directory of its hook, and the agent as one zip.

`python -m listeners.packaging` prints the directory that belongs on PYTHONPATH; `--zip FILE` writes the zip that
`spark-submit --py-files` takes: the package, and at its top the `sitecustomize` that attaches it.
"""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

#: The package of the agent. The build rewrites dotted names, so that a wheel has the installed name here.
PACKAGE = "listeners.packaging".partition(".")[0]
#: The zip has the same bytes for the same sources: all its files carry this date.
ZIP_DATE = (1980, 1, 1, 0, 0, 0)


def main(arguments: list[str] | None = None) -> int:
    """Print the hook's directory or write the zip; exit code 2 where the file cannot be written."""
    parser = argparse.ArgumentParser(
        prog="python -m listeners.packaging", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--zip", metavar="FILE", help="write the agent there, for spark-submit --py-files")
    options = parser.parse_args(arguments)
    try:
        print(write_zip(options.zip) if options.zip else site_directory())
    except OSError as error:
        print(f"{parser.prog}: cannot write {options.zip}: {error.strerror or error}", file=sys.stderr)
        return 2
    return 0


def site_directory() -> str:
    """The directory of the agent's `sitecustomize`; a path inside the zip where the agent is one."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")


def write_zip(path: str) -> str:
    """Write the agent into one zip at `path` and return `path`. Raises OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(sources().items()):
            entry = zipfile.ZipInfo(name, ZIP_DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return path


def sources() -> dict[str, bytes]:
    """Path in the archive -> content. Read through the import system, since the agent may be a zip itself."""
    found = dict(_below(files(PACKAGE), PACKAGE))
    return {**found, "sitecustomize.py": found[f"{PACKAGE}/site/sitecustomize.py"]}


def _below(folder: Any, path: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.name.endswith(".py"):
            yield f"{path}/{item.name}", item.read_bytes()
        elif item.is_dir() and item.name != "__pycache__":
            yield from _below(item, f"{path}/{item.name}")


if __name__ == "__main__":
    sys.exit(main())
