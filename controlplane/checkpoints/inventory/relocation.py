"""Relocation of the absolute paths inside the logs of a copied checkpoint.

Spark writes `file:/a`, `file:///a` and `/a` for the same path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_FILE = re.compile(r"file:/*")


def plain_path(path: str) -> str:
    """`file:///a/b` and `file:/a/b` → `/a/b`; other URLs stay. Strips trailing slashes."""
    local = _FILE.sub("/", path, count=1) if path.startswith("file:") else path
    return local.rstrip("/") or "/"


def relocated(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """The path rewritten by the first (from, to) pair whose `from` contains it; else unchanged."""
    place = plain_path(path)
    for source, target in pairs:
        start = plain_path(source)
        if place == start or place.startswith(start.rstrip("/") + "/"):
            return plain_path(target).rstrip("/") + place[len(start.rstrip("/")) :]
    return place


def below(path: str, root: str) -> str | None:
    """The path relative to a root; None where it is not below it."""
    start = plain_path(root).rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None
