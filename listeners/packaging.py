"""`python -m listeners.packaging`: prints the directory for PYTHONPATH; with `--zip FILE` writes the agent as one file.

The zip is what `spark-submit --py-files` takes: the package, and at its top the `sitecustomize` that attaches.
"""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

#: The same bytes from the same sources: no clock in the archive.
EPOCH = (1980, 1, 1, 0, 0, 0)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m listeners.packaging", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--zip", metavar="FILE", help="write the agent there, for spark-submit --py-files")
    wanted = parser.parse_args(arguments)
    try:
        print(write_zip(wanted.zip) if wanted.zip else site_directory())
    except OSError as error:
        print(
            f"listeners.packaging: {wanted.zip} cannot be written: {error.strerror or error}", file=sys.stderr
        )
        return 2
    return 0


def site_directory() -> str:
    """The directory that holds our `sitecustomize`; inside a zip where the agent is one."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")


def write_zip(path: str) -> str:
    """Write the agent into one zip at `path`, which is returned. Raises OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(sources().items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return path


def sources() -> dict[str, bytes]:
    """Path in the archive → content; read through the import system, since we may be in a zip ourselves."""
    found = dict(_below(files("listeners"), "listeners"))
    return {**found, "sitecustomize.py": found["listeners/site/sitecustomize.py"]}


def _below(folder: Any, path: str) -> Iterator[tuple[str, bytes]]:
    for one in folder.iterdir():
        if one.name.endswith(".py"):
            yield f"{path}/{one.name}", one.read_bytes()
        elif one.is_dir() and one.name != "__pycache__":
            yield from _below(one, f"{path}/{one.name}")


if __name__ == "__main__":
    sys.exit(main())
