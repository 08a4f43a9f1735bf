"""Checks that need memory: what the progress reports said, against what the files say."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import CheckpointReport, Finding, ReportStatus
from controlplane.checkpoints.inventory.model import FileEntry, Inventory
from controlplane.checkpoints.reading.checkpoint import KnownHistory, ReportedBatch
from controlplane.checkpoints.reading.versions import LATEST

ID = str(uuid.UUID(int=5))
AT = 1_795_000_000.0
CONF = {"spark.sql.shuffle.partitions": "2"}


def offsets(end: Any, watermark: int = 0) -> str:
    head = {"batchWatermarkMs": watermark, "batchTimestampMs": 1, "conf": CONF}
    return f"v1\n{json.dumps(head)}\n{json.dumps(end)}"


def checkpoint(
    planned: Mapping[int, str], committed: Mapping[int, int], *, at: float = AT, crc: bool = True
) -> Inventory:
    """A stateless query's checkpoint: entries of offsets/ and the watermarks in commits/."""
    contents = {"metadata": json.dumps({"id": ID})}
    contents |= {f"offsets/{batch}": text for batch, text in planned.items()}
    contents |= {
        f"commits/{batch}": f'v1\n{{"nextBatchWatermarkMs":{mark}}}' for batch, mark in committed.items()
    }
    entries = {path: FileEntry(len(text), at) for path, text in contents.items()}
    if crc:
        entries |= {f"offsets/.{batch}.crc": FileEntry(12, at) for batch in planned}
    return Inventory("/c", entries, {path: text.encode() for path, text in contents.items()}, collected_at=AT)


def healthy(newest: int = 3, **more: Any) -> Inventory:
    batches = range(newest + 1)
    return checkpoint({b: offsets({"t": {"0": b * 10}}) for b in batches}, dict.fromkeys(batches, 0), **more)


def remembered(newest: int = 3, **more: Any) -> KnownHistory:
    reports = {b: ReportedBatch(AT, ({"t": {"0": b * 10}},)) for b in range(newest + 1)}
    return KnownHistory(**{"query_id": ID, "stateful": False, "reports": reports, **more})


def judged(held: Inventory, history: KnownHistory | None) -> CheckpointReport:
    return analyze(held, LATEST, history=history)


def the(verdict: CheckpointReport, check: str) -> Finding:
    found = [finding for finding in verdict.findings if finding.check == check]
    assert len(found) == 1, [finding.check for finding in verdict.findings]
    return found[0]


def checks(verdict: CheckpointReport) -> set[str]:
    return {finding.check for finding in verdict.findings}


def test_a_checkpoint_that_is_as_it_was_reported_is_ok() -> None:
    verdict = judged(healthy(), remembered())
    assert (verdict.verdict, checks(verdict)) == (ReportStatus.OK, set())


def test_an_edited_offset_differs_from_what_the_batch_reported() -> None:
    held = checkpoint({2: offsets({"t": {"0": 20}}), 3: offsets({"t": {"0": 7000}})}, {2: 0, 3: 0})
    finding = the(judged(held, remembered()), "log.offset-differs")
    assert finding.evidence["batch"] == 3
    assert finding.evidence["reported"] == ['{"t":{"0":30}}']


@pytest.mark.parametrize(
    ("written", "reported"),
    [({"a": 1, "b": 2}, {"b": 2, "a": 1}), (5, 5), (5, "5"), ("-", {"t": 1}), ({"logOffset": 3}, None)],
)
def test_equal_offsets_in_another_notation_do_not_differ(written: Any, reported: Any) -> None:
    held = checkpoint({0: offsets(written)}, {0: 0})
    history = remembered(reports={0: ReportedBatch(AT, (reported,))})
    assert "log.offset-differs" not in checks(judged(held, history))


@pytest.mark.parametrize(
    ("lines", "reported", "differs"),
    [
        ((30, 30), (30,), False),
        ((30, 7, 30), (30, 7), False),
        ((30, 7000), (30,), True),
        ((30, 30, 30), (30, 7), True),
        ((30, 30), (), True),
    ],
)
def test_a_stream_used_twice_has_two_lines_and_one_report(
    lines: tuple[int, ...], reported: tuple[int, ...], differs: bool
) -> None:
    held = checkpoint({0: "\n".join((offsets(lines[0]), *map(str, lines[1:])))}, {0: 0})
    history = remembered(reports={0: ReportedBatch(AT, reported)})
    assert ("log.offset-differs" in checks(judged(held, history))) is differs


def test_a_batch_that_ran_again_after_its_report_is_not_compared() -> None:
    held = checkpoint({3: offsets({"t": {"0": 999}})}, {3: 0}, at=AT + 3600)
    assert "log.offset-differs" not in checks(judged(held, remembered()))


def test_a_batch_in_flight_is_not_compared_with_an_earlier_lifecycle_of_its_number() -> None:
    held = checkpoint({2: offsets({"t": {"0": 20}}), 3: offsets({"t": {"0": 999}})}, {2: 0})
    assert "log.offset-differs" not in checks(judged(held, remembered()))


def test_a_lost_entry_is_shown_as_its_report_has_it() -> None:
    held = checkpoint({1: offsets({"t": {"0": 10}}), 3: offsets({"t": {"0": 30}})}, {1: 0, 2: 0, 3: 0})
    verdict = judged(held, remembered())
    assert verdict.verdict is ReportStatus.BROKEN
    entry = the(verdict, "log.offset-rebuildable").evidence["entries"]
    assert entry == {"2": {"lines": ['{"t":{"0":20}}'], "batchWatermarkMs": None}}


def twice(line: str, version: int = 1) -> str:
    """An entry of a query that uses its first source twice, in `stream.union(stream)`, and another one once."""
    head = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": CONF}
    names = ("a:", "b:", "c:") if version == 2 else ("", "", "")
    lines = [f"{name}{text}" for name, text in zip(names, (line, line, "7000"), strict=True)]
    return "\n".join((f"v{version}", json.dumps(head), *lines))


@pytest.mark.parametrize(("version", "lines"), [(1, ["20", "20", "7001"]), (2, ["a:20", "b:20", "c:7001"])])
def test_a_lost_entry_has_a_line_for_each_use_of_a_stream(version: int, lines: list[str]) -> None:
    held = checkpoint({1: twice("10", version)}, {1: 0, 2: 0})
    reports = {1: ReportedBatch(AT, (10, 7000)), 2: ReportedBatch(AT, (20, 7001))}
    verdict = judged(held, remembered(reports=reports))
    entries = the(verdict, "log.offset-rebuildable").evidence["entries"]
    assert entries == {"2": {"lines": lines, "batchWatermarkMs": None}}
    alike = {**reports, 1: ReportedBatch(AT, (10, 10))}
    assert "log.offset-rebuildable" not in checks(judged(held, remembered(reports=alike)))
    del reports[1]
    assert "log.offset-rebuildable" not in checks(judged(held, remembered(reports=reports)))


@pytest.mark.parametrize(("newest", "expected"), [(5, "did run"), (3, "has no report")])
def test_reports_show_whether_batches_of_an_ahead_commit_log_ran(newest: int, expected: str) -> None:
    held = healthy(3)
    entries = {**held.entries, "commits/5": FileEntry(30, AT), "commits/4": FileEntry(30, AT)}
    verdict = judged(replace(held, entries=entries), remembered(newest))
    assert expected in the(verdict, "log.commit-known").message


def test_batches_that_were_reported_and_are_not_in_the_log_will_run_again() -> None:
    verdict = judged(healthy(3), remembered(7))
    assert verdict.verdict is ReportStatus.RISKY
    assert the(verdict, "log.behind-history").evidence == {"newest_offsets": 3, "newest_reported": 7}
    assert judged(healthy(3), remembered(4, recent=frozenset({4}))).verdict is ReportStatus.OK
    asynchronous = remembered(7, asynchronous=True)
    assert judged(healthy(3), asynchronous).verdict is ReportStatus.OK


def test_watermark_behind_a_reported_one_is_a_finding() -> None:
    batches = range(4)
    held = checkpoint({b: offsets({"t": 1}, 1000 + b) for b in batches}, {b: 1001 + b for b in batches})
    reports = {b: ReportedBatch(AT, ({"t": 1},), 1000 + b) for b in batches}
    assert judged(held, remembered(reports=reports)).verdict is ReportStatus.OK
    ahead = {**reports, 2: ReportedBatch(AT, ({"t": 1},), 90_000)}
    finding = the(judged(held, remembered(reports=ahead)), "wm.regressed")
    assert (finding.evidence["batch"], finding.evidence["reported_ms"]) == (2, 90_000)


def test_the_state_folder_of_a_stateful_query_is_missed() -> None:
    verdict = judged(healthy(), remembered(stateful=True))
    assert verdict.verdict is ReportStatus.BROKEN
    assert the(verdict, "state.dir-missing")


def test_query_id_other_than_the_known_one_is_a_finding() -> None:
    known = str(uuid.UUID(int=6))
    assert the(judged(healthy(), remembered(query_id=known)), "meta.id-changed").evidence["known"] == known


def test_disallowed_change_of_the_newest_run_is_risky_not_broken() -> None:
    verdict = judged(healthy(), remembered(disallowed_changes=("a source was added", "a key was changed")))
    assert verdict.verdict is ReportStatus.RISKY
    assert "a source was added (1 more)" in the(verdict, "run.not-allowed").message


def test_a_socket_cannot_be_read_again() -> None:
    socket = remembered(sources=("TextSocketV2[host: localhost, port: 9999]",))
    verdict = judged(healthy(), socket)
    assert verdict.verdict is ReportStatus.BROKEN
    assert "Offsets committed out of order" in the(verdict, "src.not-kept").message
    assert "src.not-kept" not in checks(
        judged(healthy(), remembered(sources=("FileStreamSource[file:/in]",)))
    )


def test_questions_that_need_history_become_one_note() -> None:
    verdict = judged(healthy(crc=False), None)
    assert verdict.verdict is ReportStatus.OK
    message = the(verdict, "memory.unknown").message
    assert "whether the query is stateful" in message
    assert "offsets/3" in message
    assert "memory.unknown" not in checks(judged(healthy(crc=False), remembered()))


def test_damage_in_what_is_remembered_is_no_error() -> None:
    history = remembered(reports={3: ReportedBatch(AT, (), None), 2: ReportedBatch(AT, (None, [], "x"), 5)})
    assert judged(healthy(), history).verdict in (ReportStatus.RISKY, ReportStatus.OK)
