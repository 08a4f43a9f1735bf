"""Checks against history: the files compared with the progress reports that the query sent while it ran.

Without history, one note lists what cannot be checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from controlplane.checkpoints.checks.logs import BACKUP, sparse
from controlplane.checkpoints.findings import Finding, note, results_change
from controlplane.checkpoints.reading.checkpoint import CheckpointView, ReportedBatch
from controlplane.checkpoints.reading.logs import OffsetEntry, Torn

#: The clocks of storage, driver and server may differ by this much.
SLACK_SECONDS = 60.0
MAX_REBUILT = 5
#: Entries that are compared with their reports to find out what each line is.
MAX_COMPARED = 20


def unknown(view: CheckpointView) -> Iterator[Finding]:
    """`memory.unknown`: what only the query's history could answer, in one note."""
    if not view.history.empty or view.planned is None:
        return
    open_questions = []
    if not view.stateful and view.next_batch > 0:
        open_questions.append("whether the query is stateful (there is no state/)")
    if not view.inventory.is_file(f"offsets/.{view.planned}.crc"):
        open_questions.append(
            f"whether offsets/{view.planned} is what the query planned (it has no .crc file)"
        )
    if open_questions:
        message = (
            f"Not checked, because the query's history is not known here: {' and '.join(open_questions)}."
        )
        yield note("memory.unknown", message)


def changed_ends(view: CheckpointView) -> Iterator[Finding]:
    """`log.offset-differs`: an entry differs from the end offsets that its batch reported when it was committed."""
    for batch, report in sorted(view.history.reports.items(), reverse=True):
        entry = view.offset_entry(batch)
        if not isinstance(entry, OffsetEntry) or not _is_of_its_commit(view, batch, report):
            continue
        if _same(entry, report):
            continue
        yield results_change(
            "log.offset-differs",
            f"offsets/{batch} differs from the end offsets that batch {batch} reported. "
            "A restart loses or repeats rows.",
            batch=batch,
            written=list(entry.offsets.values()),
            reported=[_line(end) for end in report.end_offsets],
            remedy=(BACKUP, f"write the reported end offsets back into offsets/{batch}, one line per source"),
        )


def _same(entry: OffsetEntry, report: ReportedBatch) -> bool:
    """Compare entry and report; version 2 of the log names its sources and orders them in its own way."""
    written, end_offsets = [_value(line) for line in entry.offsets.values()], list(report.end_offsets)
    if entry.version >= 2:
        written, end_offsets = sorted(written, key=_sorting), sorted(end_offsets, key=_sorting)
    if len(written) > len(end_offsets) > 0:
        return _repeated(written, end_offsets)
    return len(written) == len(end_offsets) and not any(map(_differ, written, end_offsets))


def _repeated(written: Sequence[Any], end_offsets: Sequence[Any]) -> bool:
    """Whether the lines are the reported ends and no others: Spark writes one line for each use of a stream, as in
    `stream.union(stream)`, and reports the stream once."""
    return all(not all(_differ(line, end) for end in end_offsets) for line in written) and all(
        not all(_differ(line, end) for line in written) for end in end_offsets
    )


def _sorting(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _is_of_its_commit(view: CheckpointView, batch: int, report: ReportedBatch) -> bool:
    """Whether the report is of the run that committed this batch: it came later, and no later run repeated it."""
    if batch not in view.commits.batches:
        return False
    committed = view.inventory.entries[f"commits/{batch}"].modified
    return committed is None or committed <= report.at + SLACK_SECONDS


def _value(line: str) -> Any:
    """An offset as progress reports show it: parsed where it is JSON, else as text."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.strip()


def _differ(written: Any, reported: Any) -> bool:
    """An end that was not reported, or is void in the log, is not compared."""
    if reported is None or written in ("-", None):
        return False
    return bool(written != reported and str(written) != str(reported))


def _line(end: Any) -> str:
    return end if isinstance(end, str) else json.dumps(end, separators=(",", ":"))


def rebuildable(view: CheckpointView) -> Iterator[Finding]:
    """`log.offset-rebuildable`: entries that are lost or torn, and whose offsets a report holds."""
    newest = max((b for b in (view.planned, view.committed) if b is not None), default=None)
    if newest is None or sparse(view) or not view.inventory.complete:
        return
    around = range(max(0, (view.planned or 0) - 1), newest + 1)
    lost = [b for b in around if b not in view.offsets.batches or isinstance(view.offset_entry(b), Torn)]
    known = {
        b: rebuilt
        for b in sorted(lost, reverse=True)
        if (report := view.history.reports.get(b)) and (rebuilt := _rebuilt(view, report))
    }
    if known:
        named = ", ".join(f"offsets/{b}" for b in sorted(known)[:MAX_REBUILT])
        shown = {str(b): known[b] for b in list(known)[:MAX_REBUILT]}
        remedy = (
            BACKUP,
            "copy the first two lines of the nearest readable entry and set batchWatermarkMs to the batch's watermark",
            "add the lines shown here",
        )
        yield note(
            "log.offset-rebuildable",
            f"{named} can be rebuilt from progress reports.",
            entries=shown,
            remedy=remedy,
        )


def _rebuilt(view: CheckpointView, report: ReportedBatch) -> dict[str, Any] | None:
    layout = _layout(view, len(report.end_offsets))
    if layout is None:
        return None
    lines = [f"{name}{_line(report.end_offsets[place])}" for name, place in layout]
    return {"lines": lines, "batchWatermarkMs": report.watermark_ms}


def _layout(view: CheckpointView, sources: int) -> Sequence[tuple[str, int]] | None:
    """For each line of an entry, its `name:` and the reported source that it holds; None if no entry shows that.

    A stream that is used twice has two lines and one report. Version 2 of the log names its lines.
    """
    for batch in reversed(view.offsets.batches[-MAX_COMPARED:]):
        entry, report = view.offset_entry(batch), view.history.reports.get(batch)
        if not isinstance(entry, OffsetEntry):
            continue
        if entry.version < 2 and len(entry.offsets) == sources:
            break
        if report is not None and (found := _places(entry, report)) is not None:
            return found
    else:
        return None
    return [("", place) for place in range(sources)]


def _places(entry: OffsetEntry, report: ReportedBatch) -> Sequence[tuple[str, int]] | None:
    """The layout that entry and report of one batch show; None where an offset fits several sources or none."""
    ends = report.end_offsets
    fits = {
        name: [place for place, end in enumerate(ends) if not _differ(_value(line), end)]
        for name, line in entry.offsets.items()
    }
    if any(len(places) != 1 for places in fits.values()):
        return None
    return [(f"{name}:" if entry.version >= 2 else "", place) for name, (place,) in fits.items()]


def ahead(view: CheckpointView) -> Iterator[Finding]:
    """`log.commit-known`: where the commit log is ahead, whether the history shows that those batches ran."""
    n, k = view.planned, view.committed
    if n is None or k is None or k <= n or not view.history.reports:
        return
    ran = [b for b in range(n + 1, min(k, n + 1000) + 1) if b in view.history.reports]
    if ran:
        message = f"Batch {ran[-1]} did run: its report is in the history. Restore offsets/{n + 1}…{k}."
    else:
        message = f"The history has no report of a batch after {n}: commits/{n + 1}…{k} seem to belong to another query."
    yield note("log.commit-known", message, reported=ran[-MAX_REBUILT:])


def behind(view: CheckpointView) -> Iterator[Finding]:
    """`log.behind-history`: the log lacks batches that were reported, as after a rewind or with an old backup."""
    n, newest = view.planned, max(view.history.reports.keys() - view.history.recent, default=None)
    if n is None or newest is None or newest <= n or view.history.asynchronous or sparse(view):
        return
    if view.committed is not None and view.committed > n:
        return  # `log.commit-ahead` reports it, and is worse
    yield results_change(
        "log.behind-history",
        f"The log ends at batch {n}, but batch {newest} was reported: the checkpoint was rewound or is an older copy. "
        f"Batches {n + 1} to {newest} will run and be delivered again.",
        newest_offsets=n,
        newest_reported=newest,
        remedy=(
            "if it was rewound on purpose: start the query",
            "if not: restore the newer checkpoint; a sink that remembers batch numbers skips these batches, "
            "and their new rows are lost",
        ),
    )


def watermark(view: CheckpointView) -> Iterator[Finding]:
    """`wm.regressed`: the log's watermark is lower than one that an earlier batch reported."""
    n = view.planned
    if n is None or view.last is None:
        return
    reported = {b: r.watermark_ms for b, r in view.history.reports.items() if b <= n and r.watermark_ms}
    batch = max(reported, key=lambda b: reported[b] or 0, default=None)
    known = reported[batch] if batch is not None else None
    held = view.last.watermark_ms
    if view.last_commit is not None and view.committed == n:
        held = min(held, view.last_commit.watermark_ms) if view.last_commit.watermark_ms else held
    if known is None or known <= held + 1:
        return
    yield results_change(
        "wm.regressed",
        f"The watermark in the log is {(known - held) / 1000:.0f} s behind the one that batch {batch} reported. "
        "Closed windows open again, and rows may be emitted twice.",
        batch=batch,
        reported_ms=known,
        written_ms=held,
        remedy=(
            BACKUP,
            f"set batchWatermarkMs in offsets/{n} to {known}, unless the query was rewound on purpose",
        ),
    )


def disallowed_changes(view: CheckpointView) -> Iterator[Finding]:
    """`run.not-allowed`: the newest run started with a change that this checkpoint does not allow."""
    if view.history.disallowed_changes:
        first, *more = view.history.disallowed_changes
        message = f"The newest run has a change that this checkpoint does not allow: {first}"
        message += f" ({len(more)} more)" if more else ""
        remedy = (
            "revert the change, or start on a new checkpoint",
            "compare the shapes to see each rule: controlplane preflight --old OLD --new NEW",
        )
        yield results_change(
            "run.not-allowed", message, changes=list(view.history.disallowed_changes[:10]), remedy=remedy
        )
