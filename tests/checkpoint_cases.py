"""Checkpoints that real Spark (4.3.0, 3.5.9) wrote, with damage, and the outcome of a restart on each.

`tests/data/checkpoints/cases.tar.xz` has a folder for each case with `checkpoint/`, `in/`, `out/` and `case.json`.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.checkpoints.reading.versions import SparkVersion, parse_version
from tests.paths import DATA

ARCHIVE = DATA / "checkpoints/cases.tar.xz"
#: Outcome of a restart → the verdict that the doctor must give.
PRINTED = {"fails": "broken", "ok": "ok"}


@dataclass(frozen=True)
class Case:
    """One case, unpacked."""

    folder: Path
    reported: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")

    @property
    def target(self) -> SparkVersion:
        """The Spark that was started on it, which may be another than the one that wrote it."""
        return parse_version(self.reported["spark_version"].rpartition("read by")[2])

    @property
    def wanted(self) -> str:
        return PRINTED.get(self.reported["verdict"], "risky")

    @property
    def output(self) -> str | None:
        return str(self.folder / "out") if (self.folder / "out").is_dir() else None

    @property
    def inputs(self) -> list[str]:
        return [str(self.folder / name) for name in ("in", "in2") if (self.folder / name).is_dir()]

    @property
    def relocations(self) -> list[tuple[str, str]]:
        return [(self.reported["original_root"], str(self.folder))]


def unpack(target: Path, only: Sequence[str] = ()) -> None:
    """Unpack the archive, or the named cases, with the original file times."""
    with tarfile.open(ARCHIVE) as archive:
        wanted = [m for m in archive if not only or m.name.removeprefix("./").split("/")[0] in only]
        archive.extractall(target, members=wanted, filter="data")


def cases(root: Path) -> Iterator[Case]:
    for reported in sorted(root.glob("*/case.json")):
        yield Case(reported.parent, json.loads(reported.read_text(encoding="utf-8")))
