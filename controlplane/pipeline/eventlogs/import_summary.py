"""What an import did: for people in lines, for programs as one document. Pure; made by the import."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from controlplane.pipeline.eventlogs.discovery import RejectedLog

#: So many paths are named for people; `--json` names all.
MOST_NAMED = 50


@dataclass
class ImportSummary:
    """Counts of logs, events, rows and bytes. `refused`: what is not in the lake; `damaged`: what is there in part."""

    lake: str = ""
    found: int = 0
    read: int = 0
    unchanged: int = 0
    too_old: int = 0
    in_progress: int = 0
    size: int = 0
    decoded: int = 0
    known: int = 0
    seconds: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    refused: list[RejectedLog] = field(default_factory=list)
    damaged: list[RejectedLog] = field(default_factory=list)


def as_json(account: ImportSummary) -> dict[str, Any]:
    return {
        "lake": account.lake,
        "logs": {
            "found": account.found,
            "read": account.read,
            "unchanged": account.unchanged,
            "too_old": account.too_old,
            "in_progress": account.in_progress,
            "damaged": len({one.path for one in account.damaged}),
            "refused": len(account.refused),
        },
        "events": dict(sorted(account.events.items())),
        "rows": dict(sorted(account.rows.items())),
        "known_reports": account.known,
        "bytes": account.size,
        "decoded_bytes": account.decoded,
        "seconds": round(account.seconds, 3),
        "damaged": [{"path": one.path, "reason": one.reason} for one in account.damaged],
        "refused": [{"path": one.path, "reason": one.reason} for one in account.refused],
    }


def in_words(account: ImportSummary) -> list[str]:
    """The same as lines."""
    lines = [
        f"{account.lake}: {_counted(account.read, 'log')} read ({in_bytes(account.size)}) in "
        f"{account.seconds:.1f} s, {account.unchanged} unchanged, {len(account.refused)} refused"
    ]
    if account.too_old:
        lines.append(f"{_counted(account.too_old, 'log')} older than --since")
    if account.in_progress:
        lines.append(f"{_counted(account.in_progress, 'log')} still written to: import again for the rest")
    events = ", ".join(f"{count} {kind}" for kind, count in sorted(account.events.items()))
    rows = ", ".join(f"{count} {table}" for table, count in sorted(account.rows.items()))
    lines.append(f"events: {events or 'none of a streaming query'}")
    lines.append(
        f"rows: {rows or 'none'}" + (f"; {account.known} reports were known" if account.known else "")
    )
    for title, named in (("damaged", account.damaged), ("refused", account.refused)):
        lines += [f"{title}: {one}" for one in named[:MOST_NAMED]]
        if len(named) > MOST_NAMED:
            lines.append(f"{title}: {len(named) - MOST_NAMED} more; --json names all")
    return lines


def in_bytes(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
