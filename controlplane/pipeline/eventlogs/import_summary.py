"""Summary of an import, as lines for people and as one JSON document. Pure; filled by `import_job`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from controlplane.pipeline.eventlogs.discovery import RejectedLog

#: Paths named per category in the text output; `--json` lists all.
MAX_NAMED_PATHS = 50


@dataclass
class ImportSummary:
    """Counts of logs, events, rows and bytes of one import.

    `rejected`: logs of which nothing is in the lake; `damaged`: logs of which a part is; `duplicates`:
    reports that the lake already held.
    """

    lake: str = ""
    found: int = 0
    read: int = 0
    unchanged: int = 0
    too_old: int = 0
    in_progress: int = 0
    size: int = 0
    decoded_bytes: int = 0
    duplicates: int = 0
    seconds: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    rejected: list[RejectedLog] = field(default_factory=list)
    damaged: list[RejectedLog] = field(default_factory=list)


def summary_json(summary: ImportSummary) -> dict[str, Any]:
    """The summary as the document that `controlplane history import --json` prints."""
    return {
        "lake": summary.lake,
        "logs": {
            "found": summary.found,
            "read": summary.read,
            "unchanged": summary.unchanged,
            "too_old": summary.too_old,
            "in_progress": summary.in_progress,
            "damaged": len({log.path for log in summary.damaged}),
            "rejected": len(summary.rejected),
        },
        "events": dict(sorted(summary.events.items())),
        "rows": dict(sorted(summary.rows.items())),
        "duplicate_reports": summary.duplicates,
        "bytes": summary.size,
        "decoded_bytes": summary.decoded_bytes,
        "seconds": round(summary.seconds, 3),
        "damaged": [{"path": log.path, "reason": log.reason} for log in summary.damaged],
        "rejected": [{"path": log.path, "reason": log.reason} for log in summary.rejected],
    }


def summary_lines(summary: ImportSummary) -> list[str]:
    """The summary as lines of text."""
    lines = [
        f"{summary.lake}: {_counted(summary.read, 'log')} read ({format_bytes(summary.size)}) in "
        f"{summary.seconds:.1f} s, {summary.unchanged} unchanged, {len(summary.rejected)} rejected"
    ]
    if summary.too_old:
        lines.append(f"{_counted(summary.too_old, 'log')} older than --since")
    if summary.in_progress:
        lines.append(
            f"{_counted(summary.in_progress, 'log')} still in progress: import again later for the rest"
        )
    events = ", ".join(f"{count} {kind}" for kind, count in sorted(summary.events.items()))
    rows = ", ".join(f"{count} {table}" for table, count in sorted(summary.rows.items()))
    lines.append(f"events: {events or 'none of a streaming query'}")
    skipped = f"; skipped {_counted(summary.duplicates, 'report')} that the lake already has"
    lines.append(f"rows: {rows or 'none'}{skipped if summary.duplicates else ''}")
    for title, logs in (("damaged", summary.damaged), ("rejected", summary.rejected)):
        lines += [f"{title}: {log}" for log in logs[:MAX_NAMED_PATHS]]
        if len(logs) > MAX_NAMED_PATHS:
            lines.append(f"{title}: {len(logs) - MAX_NAMED_PATHS} more; --json lists them all")
    return lines


def format_bytes(size: float) -> str:
    """Format a size with a decimal unit: 1500000 → `1.5 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
