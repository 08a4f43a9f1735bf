"""Format of the server's log: JSON lines, or short lines on a terminal.

`serve` and `up` configure it after the settings have been checked, so that a usage error is one plain line.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TextIO

from listeners.protocol.wire import rfc3339

QUIET = ("uvicorn", "apscheduler", "alembic", "asyncio")


class JsonLines(logging.Formatter):
    """One JSON object a record: `at`, `level`, `logger`, `message`, and `traceback` of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "at": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False)


class ShortLines(logging.Formatter):
    """Time, level and message for a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")


def configure(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send the log of this process to `stream` (standard error); libraries log warnings and above."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ShortLines() if stream.isatty() else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
