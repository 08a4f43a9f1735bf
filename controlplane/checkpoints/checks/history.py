"""Checks that need memory: the files against what the query's progress reports said while it ran.

Without any memory one note says what cannot be told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from controlplane.checkpoints.checks.logs import BACKUP, sparse
from controlplane.checkpoints.findings import Finding, note, results_change
from controlplane.checkpoints.reading.checkpoint import CheckpointView, ReportedBatch
from controlplane.checkpoints.reading.logs import OffsetEntry, Torn

#: Storage, driver and server tell the time apart by this much.
SLACK_SECONDS = 60.0
MAX_REBUILT = 5


def unknown(view: CheckpointView) -> Iterator[Finding]:
    """`memory.unknown`: what only the query's history could tell, told once."""
    if not view.history.empty or view.planned is None:
        return
    open_questions = []
    if not view.stateful and view.next_batch > 0:
        open_questions.append("whether the query keeps state (there is no state/)")
    if not view.inventory.is_file(f"offsets/.{view.planned}.crc"):
        open_questions.append(
            f"whether offsets/{view.planned} is what the query planned (it has no checksum beside it)"
        )
    if open_questions:
        message = f"unknown without the query's history: {'; '.join(open_questions)}"
        yield note("memory.unknown", message)


def changed_ends(view: CheckpointView) -> Iterator[Finding]:
    """`log.offset-differs`: an entry that is not what its batch reported when it was committed."""
    for batch, told in sorted(view.history.reports.items(), reverse=True):
        entry = view.offset_entry(batch)
        if not isinstance(entry, OffsetEntry) or not _is_of_its_commit(view, batch, told):
            continue
        if _same(entry, told):
            continue
        yield results_change(
            "log.offset-differs",
            f"offsets/{batch} is not what batch {batch} reported as its end: rows are lost or repeated",
            batch=batch,
            written=list(entry.offsets.values()),
            reported=[_line(end) for end in told.end_offsets],
            remedy=(BACKUP, f"write the reported end offsets back into offsets/{batch}, a line a source"),
        )


def _same(entry: OffsetEntry, told: ReportedBatch) -> bool:
    """Version 2 of the log names its sources and has an order of its own."""
    written, end_offsets = [_value(line) for line in entry.offsets.values()], list(told.end_offsets)
    if entry.version >= 2:
        written, end_offsets = sorted(written, key=_sorting), sorted(end_offsets, key=_sorting)
    return len(written) == len(end_offsets) and not any(map(_differ, written, end_offsets))


def _sorting(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _is_of_its_commit(view: CheckpointView, batch: int, told: ReportedBatch) -> bool:
    """Whether the report is of the run that committed this batch: it came after that, and no later run did it again."""
    if batch not in view.commits.batches:
        return False
    committed = view.inventory.entries[f"commits/{batch}"].modified
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


def rebuildable(view: CheckpointView) -> Iterator[Finding]:
    """`log.offset-rebuildable`: entries that are lost or torn, and that a report holds."""
    newest = max((b for b in (view.planned, view.committed) if b is not None), default=None)
    if newest is None or sparse(view) or not view.inventory.complete:
        return
    around = range(max(0, (view.planned or 0) - 1), newest + 1)
    lost = [b for b in around if b not in view.offsets.batches or isinstance(view.offset_entry(b), Torn)]
    known = {b: view.history.reports[b] for b in lost if b in view.history.reports}
    if known:
        named = ", ".join(f"offsets/{b}" for b in sorted(known)[:MAX_REBUILT])
        shown = {str(b): _rebuilt(known[b]) for b in sorted(known, reverse=True)[:MAX_REBUILT]}
        remedy = (
            BACKUP,
            "copy the first two lines of the nearest good entry, put the batch's watermark into batchWatermarkMs",
            "then a line a source with the end offsets shown here",
        )
        yield note(
            "log.offset-rebuildable",
            f"{named} can be rebuilt from progress reports",
            entries=shown,
            remedy=remedy,
        )


def _rebuilt(told: ReportedBatch) -> dict[str, Any]:
    return {"lines": [_line(end) for end in told.end_offsets], "batchWatermarkMs": told.watermark_ms}


def ahead(view: CheckpointView) -> Iterator[Finding]:
    """`log.commit-known`: where the commit log is ahead, whether those batches ran."""
    n, k = view.planned, view.committed
    if n is None or k is None or k <= n or not view.history.reports:
        return
    ran = [b for b in range(n + 1, min(k, n + 1000) + 1) if b in view.history.reports]
    if ran:
        message = f"batch {ran[-1]} did run, its report is in the history: bring back offsets/{n + 1}…{k}"
    else:
        message = f"no report of a batch after {n} is in the history: commits/{n + 1}…{k} seem to be of another query"
    yield note("log.commit-known", message, reported=ran[-MAX_REBUILT:])


def behind(view: CheckpointView) -> Iterator[Finding]:
    """`log.behind-history`: batches were reported that the log has forgotten, as after a rewind or an old backup."""
    n, newest = view.planned, max(view.history.reports.keys() - view.history.recent, default=None)
    if n is None or newest is None or newest <= n or view.history.asynchronous or sparse(view):
        return
    if view.committed is not None and view.committed > n:
        return  # that is worse, and told
    yield results_change(
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


def watermark(view: CheckpointView) -> Iterator[Finding]:
    """`wm.regressed`: the log's watermark is behind one that a batch before it reported."""
    n = view.planned
    if n is None or view.last is None:
        return
    told = {b: r.watermark_ms for b, r in view.history.reports.items() if b <= n and r.watermark_ms}
    batch = max(told, key=lambda b: told[b] or 0, default=None)
    known = told[batch] if batch is not None else None
    held = view.last.watermark_ms
    if view.last_commit is not None and view.committed == n:
        held = min(held, view.last_commit.watermark_ms) if view.last_commit.watermark_ms else held
    if known is None or known <= held + 1:
        return
    yield results_change(
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


def disallowed_changes(view: CheckpointView) -> Iterator[Finding]:
    """`run.not-allowed`: the newest run began although its change is not allowed on this checkpoint."""
    if view.history.disallowed_changes:
        first, *more = view.history.disallowed_changes
        message = f"the newest run changed what this checkpoint does not allow: {first}"
        message += f" (and {len(more)} more)" if more else ""
        remedy = (
            "put the query back as it was, or plan a new checkpoint",
            "compare the shapes: see the rules there",
        )
        yield results_change(
            "run.not-allowed", message, changes=list(view.history.disallowed_changes[:10]), remedy=remedy
        )
