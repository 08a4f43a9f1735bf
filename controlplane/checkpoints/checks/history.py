"""Checks that need memory: the files against what the query's progress reports said while it ran.

Without any memory one note says what cannot be told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from controlplane.checkpoints.checks.logs import BACKUP, sparse
from controlplane.checkpoints.findings import Finding, harms, notes
from controlplane.checkpoints.reading.checkpoint import CheckpointView, ReportedBatch
from controlplane.checkpoints.reading.logs import OffsetEntry, Torn

#: Storage, driver and server tell the time apart by this much.
SLACK_SECONDS = 60.0
MOST_REBUILT = 5


def unknown(q: CheckpointView) -> Iterator[Finding]:
    """`memory.unknown`: what only the query's history could tell, told once."""
    if not q.history.empty or q.planned is None:
        return
    open_questions = []
    if not q.stateful and q.next_batch > 0:
        open_questions.append("whether the query keeps state (there is no state/)")
    if not q.inventory.is_file(f"offsets/.{q.planned}.crc"):
        open_questions.append(
            f"whether offsets/{q.planned} is what the query planned (it has no checksum beside it)"
        )
    if open_questions:
        message = f"unknown without the query's history: {'; '.join(open_questions)}"
        yield notes("memory.unknown", message)


def changed_ends(q: CheckpointView) -> Iterator[Finding]:
    """`log.offset-differs`: an entry that is not what its batch reported when it was committed."""
    for batch, told in sorted(q.history.reports.items(), reverse=True):
        entry = q.offset_entry(batch)
        if not isinstance(entry, OffsetEntry) or not _is_of_its_commit(q, batch, told):
            continue
        if _same(entry, told):
            continue
        yield harms(
            "log.offset-differs",
            f"offsets/{batch} is not what batch {batch} reported as its end: rows are lost or repeated",
            batch=batch,
            written=list(entry.offsets.values()),
            reported=[_line(end) for end in told.ends],
            remedy=(BACKUP, f"write the reported end offsets back into offsets/{batch}, a line a source"),
        )


def _same(entry: OffsetEntry, told: ReportedBatch) -> bool:
    """Version 2 of the log names its sources and has an order of its own."""
    written, ends = [_value(line) for line in entry.offsets.values()], list(told.ends)
    if entry.version >= 2:
        written, ends = sorted(written, key=_sorting), sorted(ends, key=_sorting)
    return len(written) == len(ends) and not any(map(_differ, written, ends))


def _sorting(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _is_of_its_commit(q: CheckpointView, batch: int, told: ReportedBatch) -> bool:
    """Whether the report is of the run that committed this batch: it came after that, and no later run did it again."""
    if batch not in q.commits.batches:
        return False
    committed = q.inventory.entries[f"commits/{batch}"].modified
    return committed is None or committed <= told.at + SLACK_SECONDS


def _value(line: str) -> Any:
    """An offset as progress reports show it: as JSON where it is such, else as text."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.strip()


def _differ(written: Any, told: Any) -> bool:
    """An end that was not told, or is void in the log, says nothing."""
    if told is None or written in ("-", None):
        return False
    return bool(written != told and str(written) != str(told))


def _line(end: Any) -> str:
    return end if isinstance(end, str) else json.dumps(end, separators=(",", ":"))


def rebuildable(q: CheckpointView) -> Iterator[Finding]:
    """`log.offset-rebuildable`: entries that are lost or torn, and that a report holds."""
    newest = max((b for b in (q.planned, q.committed) if b is not None), default=None)
    if newest is None or sparse(q) or not q.inventory.complete:
        return
    around = range(max(0, (q.planned or 0) - 1), newest + 1)
    lost = [b for b in around if b not in q.offsets.batches or isinstance(q.offset_entry(b), Torn)]
    known = {b: q.history.reports[b] for b in lost if b in q.history.reports}
    if known:
        named = ", ".join(f"offsets/{b}" for b in sorted(known)[:MOST_REBUILT])
        shown = {str(b): _rebuilt(known[b]) for b in sorted(known, reverse=True)[:MOST_REBUILT]}
        remedy = (
            BACKUP,
            "copy the first two lines of the nearest good entry, put the batch's watermark into batchWatermarkMs",
            "then a line a source with the end offsets shown here",
        )
        yield notes(
            "log.offset-rebuildable",
            f"{named} can be rebuilt from progress reports",
            entries=shown,
            remedy=remedy,
        )


def _rebuilt(told: ReportedBatch) -> dict[str, Any]:
    return {"lines": [_line(end) for end in told.ends], "batchWatermarkMs": told.watermark_ms}


def ahead(q: CheckpointView) -> Iterator[Finding]:
    """`log.commit-known`: where the commit log is ahead, whether those batches ran."""
    n, k = q.planned, q.committed
    if n is None or k is None or k <= n or not q.history.reports:
        return
    ran = [b for b in range(n + 1, min(k, n + 1000) + 1) if b in q.history.reports]
    if ran:
        message = f"batch {ran[-1]} did run, its report is in the history: bring back offsets/{n + 1}…{k}"
    else:
        message = f"no report of a batch after {n} is in the history: commits/{n + 1}…{k} seem to be of another query"
    yield notes("log.commit-known", message, reported=ran[-MOST_REBUILT:])


def behind(q: CheckpointView) -> Iterator[Finding]:
    """`log.behind-history`: batches were reported that the log has forgotten, as after a rewind or an old backup."""
    n, newest = q.planned, max(q.history.reports.keys() - q.history.recent, default=None)
    if n is None or newest is None or newest <= n or q.history.asynchronous or sparse(q):
        return
    if q.committed is not None and q.committed > n:
        return  # that is worse, and told
    yield harms(
        "log.behind-history",
        f"the log ends at batch {n}, but batch {newest} was reported: the checkpoint was rewound or is an older copy. "
        f"Batches {n + 1} to {newest} will run again and be delivered again",
        newest_offsets=n,
        newest_reported=newest,
        remedy=(
            "if somebody rewound it on purpose: just start",
            "if not: bring back the newer checkpoint; with a sink that keeps batch numbers the batches are skipped, "
            "and what they would hold now is lost",
        ),
    )


def watermark(q: CheckpointView) -> Iterator[Finding]:
    """`wm.regressed`: the log's watermark is behind one that a batch before it reported."""
    n = q.planned
    if n is None or q.last is None:
        return
    told = {b: r.watermark_ms for b, r in q.history.reports.items() if b <= n and r.watermark_ms}
    batch = max(told, key=lambda b: told[b] or 0, default=None)
    known = told[batch] if batch is not None else None
    held = q.last.watermark_ms
    if q.last_commit is not None and q.committed == n:
        held = min(held, q.last_commit.watermark_ms) if q.last_commit.watermark_ms else held
    if known is None or known <= held + 1:
        return
    yield harms(
        "wm.regressed",
        f"the watermark in the log is {(known - held) / 1000:.0f} s behind that of batch {batch}: windows that were "
        "closed open again, and rows may be emitted twice",
        batch=batch,
        reported_ms=known,
        written_ms=held,
        remedy=(
            BACKUP,
            f"set batchWatermarkMs in offsets/{n} to {known}, if nobody rewound the query on purpose",
        ),
    )


def unlike(q: CheckpointView) -> Iterator[Finding]:
    """`run.not-allowed`: the newest run began although its change is not allowed on this checkpoint."""
    if q.history.unlike:
        first, *more = q.history.unlike
        message = f"the newest run changed what this checkpoint does not allow: {first}"
        message += f" (and {len(more)} more)" if more else ""
        remedy = (
            "put the query back as it was, or plan a new checkpoint",
            "compare the shapes: see the rules there",
        )
        yield harms("run.not-allowed", message, changes=list(q.history.unlike[:10]), remedy=remedy)
