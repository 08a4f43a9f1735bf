"""Ship the project's packages to executors that lack them, as one zip on their Python path.

Called by `controlplane.pipeline.runtime.session` for every master but a local one. As a module it writes the
zip for `spark-submit --py-files`: `python -m controlplane.pipeline.runtime.shipping OUT.zip`.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from alerts import durations
from controlplane import errors
from listeners.protocol import wire

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Top-level packages that executors need; the wheels install them under other names than a checkout.
PACKAGES = tuple(sorted({module.__name__.partition(".")[0] for module in (durations, errors, wire)}))
#: One date for all files, so that the same code gives the same zip.
ZIP_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def ship_packages(context: SparkContext) -> str | None:
    """Send the packages to the executors of a cluster; return the path of the zip, None for a local master.

    Shipped code precedes installed code, so driver and executors always run the same code.
    """
    if is_local(context.master or "local"):
        return None
    folder = Path(tempfile.mkdtemp(prefix="spark-controlplane-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = folder / "made.zip"
    write_zip(made)
    # Spark serves the file while it runs, and identifies files by name.
    path = made.rename(
        folder / f"spark-controlplane-{hashlib.sha256(made.read_bytes()).hexdigest()[:12]}.zip"
    )
    context.addPyFile(str(path))
    return str(path)


def is_local(master: str) -> bool:
    """Whether executors run on the driver's machine, with the driver's interpreter."""
    return master.split("[", maxsplit=1)[0] in ("local", "local-cluster")


def write_zip(target: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, path in _files():
            file.writestr(zipfile.ZipInfo(name, ZIP_TIMESTAMP), path.read_bytes(), zipfile.ZIP_DEFLATED)


def _files() -> Iterator[tuple[str, Path]]:
    root = Path(__file__).resolve().parents[3]
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(root).as_posix(), path


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m controlplane.pipeline.runtime.shipping OUT.zip")
    write_zip(Path(sys.argv[1]))
