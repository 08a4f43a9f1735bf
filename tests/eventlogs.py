"""Event logs for tests: one that Spark 4.3 wrote, with its listener's events, and one in the format of 2.0."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

from tests.paths import DATA

FOLDER = DATA / "eventlogs"
#: Three queries of Spark 4.3: one of them with state in RocksDB, one nameless, one that fails. Shortened: few tasks.
RECORDED = FOLDER / "local-1795188700460"
#: The same events as a listener received them: `progress` is Spark's own `progress.json`.
RECEIVED = FOLDER / "heard-4.3.jsonl"
#: Written after the classes of Spark 2.0.2 (and one report of 2.0.0, which has no batch).
SPARK_2_0 = FOLDER / "app-20161124150640-0001"
REPORTS = 12


def lines(path: Path = RECORDED) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def received() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECEIVED.read_text().splitlines()]


def progress_lines(path: Path = RECORDED) -> list[bytes]:
    return [line for line in lines(path) if b"$QueryProgressEvent" in line[:120]]


def renamed(path: Path, app_id: str) -> bytes:
    """The recorded log as another application would have written it: other application, queries and runs."""
    uuids = rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    content = path.read_bytes().replace(path.name.encode(), app_id.encode())
    return re.sub(
        uuids, lambda m: str(uuid.uuid5(uuid.NAMESPACE_OID, app_id + m[0].decode())).encode(), content
    )
