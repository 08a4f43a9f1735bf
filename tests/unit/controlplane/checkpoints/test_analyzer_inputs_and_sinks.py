"""What lies around a checkpoint: the input of file sources and the log of a file sink."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import (
    FIRST_BATCH,
    CheckpointReport,
    Finding,
    ReportStatus,
    RestartEffect,
)
from controlplane.checkpoints.inventory.model import FileEntry, Inventory
from controlplane.checkpoints.reading.checkpoint import KnownHistory, ReportedBatch
from controlplane.checkpoints.reading.versions import SparkVersion
from controlplane.checkpoints.report import summary
from controlplane.checkpoints.survey import Survey
from controlplane.cli.checkpoints.doctor import report_lines
from tests.unit.controlplane.checkpoints.goldens import Step, cut, empty, golden, lose, put

SPARK = SparkVersion(4, 3, 0)
ADDED = b'v1\n{"path":"file:///before/out/part-1-x.parquet","size":1,"isDir":false,"action":"add"}'


def asked(held: Survey, history: KnownHistory | None = None) -> CheckpointReport:
    return analyze(held.checkpoint, SPARK, history=history, output=held.output, inputs=held.inputs)


def the(verdict: CheckpointReport, check: str) -> Finding:
    (finding,) = [finding for finding in verdict.findings if finding.check == check]
    return finding


def with_checkpoint(held: Survey, *steps: Step) -> Survey:
    for step in steps:
        held = replace(held, checkpoint=step(held.checkpoint))
    return held


def with_output(held: Survey, *steps: Step) -> Survey:
    for step in steps:
        assert held.output is not None
        held = replace(held, output=step(held.output))
    return held


def test_missing_planned_input_file_is_a_finding() -> None:
    held = with_checkpoint(golden("foreachbatch"), lose("commits/3"))
    listed = replace(held.inputs[0], entries={"f000.json": FileEntry(3)})
    verdict = asked(replace(held, inputs=(listed,)))
    assert the(verdict, "src.inflight-input-missing").evidence["files"][0].endswith("/in/f003.json")
    assert verdict.verdict is ReportStatus.RISKY


def test_a_planned_file_does_not_matter_where_the_file_sink_has_the_batch() -> None:
    held = with_checkpoint(golden("files"), lose("commits/4"))
    verdict = asked(replace(held, inputs=(replace(held.inputs[0], entries={}),)))
    assert verdict.verdict is ReportStatus.OK


@pytest.mark.parametrize(("guessed", "wanted"), [(False, ReportStatus.BROKEN), (True, ReportStatus.RISKY)])
def test_a_missing_input_folder_stops_the_start_if_the_query_reads_it(
    guessed: bool, wanted: ReportStatus
) -> None:
    held = golden("files")
    gone = replace(held.inputs[0], entries={}, exists=False, guessed=guessed)
    verdict = asked(replace(held, inputs=(gone,)))
    assert verdict.verdict is wanted
    assert the(verdict, "src.input-dir-missing").condition == "PATH_NOT_FOUND"


def test_an_input_that_was_copied_without_relocation_is_recognized_by_its_files() -> None:
    held = with_checkpoint(golden("foreachbatch"), lose("commits/3"))
    moved = replace(held.checkpoint, relocations=())
    elsewhere = Inventory("/copy/of/input", {f"f00{n}.json": FileEntry(3) for n in range(3)})
    verdict = asked(Survey(moved, None, (elsewhere,)))
    (missing,) = the(verdict, "src.inflight-input-missing").evidence["files"]
    assert missing.endswith("/in/f003.json")


@pytest.mark.parametrize(
    ("steps", "check"),
    [
        ([lose("_spark_metadata")], "sink.metadata-missing"),
        ([lose("_spark_metadata/4")], "sink.metadata-behind"),
        ([lose("_spark_metadata/2")], "sink.metadata-gap"),
        ([empty("_spark_metadata/4")], "sink.metadata-unreadable"),
        ([cut("_spark_metadata/3", 0.5)], "sink.metadata-unreadable"),
    ],
)
def test_damage_to_the_sinks_log_names_the_batch_at_which_the_query_will_die(
    steps: list[Step], check: str
) -> None:
    verdict = asked(with_output(golden("files"), *steps))
    assert verdict.verdict is ReportStatus.RISKY
    assert the(verdict, check).evidence["dies_at_batch"] == 9


def test_a_folder_that_a_batch_job_writes_is_no_file_sink() -> None:
    plain = with_output(golden("files"), lose("_spark_metadata"), put("_SUCCESS", b""))
    assert asked(plain).verdict is ReportStatus.OK


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (Inventory("/lake/wrong", {}, exists=False), "The output /lake/wrong does not exist"),
        (Inventory("/lake/wrong", {"a.csv": FileEntry(3)}), "/lake/wrong has no _spark_metadata"),
    ],
)
def test_an_output_that_is_not_the_sink_s_is_named(output: Inventory, fault: str) -> None:
    verdict = asked(replace(golden("files"), output=output))
    assert verdict.verdict is ReportStatus.OK and fault in the(verdict, "sink.not-checked").message


def test_a_missing_data_file_fails_readers_and_is_found_under_any_root() -> None:
    held = golden("files")
    assert held.output is not None
    data = next(path for path in held.output.entries if path.endswith(".parquet"))
    assert the(asked(with_output(held, lose(data))), "sink.data-file-missing").evidence["files"]
    output = Inventory("/elsewhere", {**held.output.entries, "_spark_metadata/0": FileEntry(len(ADDED))})
    output = replace(output, contents={**held.output.contents, "_spark_metadata/0": ADDED})
    gone = the(asked(replace(held, output=output)), "sink.data-file-missing").evidence["files"]
    assert gone == ["file:///before/out/part-1-x.parquet"]


def ahead(held: Survey) -> Survey:
    """Rewound by two batches, the sink's log kept."""
    return with_checkpoint(
        held, lose(*(f"{log}/{n}" for log in ("offsets", "commits", "sources/0") for n in (3, 4)))
    )


def test_a_sink_ahead_is_harmless_where_the_waiting_input_is_what_it_has() -> None:
    verdict = asked(ahead(golden("files")))
    assert verdict.verdict is ReportStatus.OK
    assert "nothing is lost" in the(verdict, "sink.metadata-ahead").message


@pytest.mark.parametrize("change", ["unknown", "more", "younger"])
def test_a_sink_ahead_is_risky_where_that_cannot_be_shown(change: str) -> None:
    held = ahead(golden("files"))
    (listed,) = held.inputs
    later = {"f009.json": FileEntry(3, held.checkpoint.collected_at)}
    entries = {**listed.entries, **later}
    if change == "younger":
        entries = {
            p: (replace(e, modified=2e9) if p == "f004.json" else e) for p, e in listed.entries.items()
        }
    inputs = () if change == "unknown" else (replace(listed, entries=entries),)
    assert asked(replace(held, inputs=inputs)).verdict is ReportStatus.RISKY


def test_missing_checkpoint_is_unreadable_and_its_sink_is_reported() -> None:
    held = golden("files")
    nothing = Inventory("/gone", {}, exists=False)
    verdict = asked(replace(held, checkpoint=nothing))
    assert verdict.verdict is ReportStatus.UNREADABLE
    assert [finding.check for finding in verdict.findings] == [
        "ckpt.missing",
        "sink.metadata-without-checkpoint",
    ]


# What only somebody's memory reports


def test_memory_of_state_makes_a_lost_state_folder_certain() -> None:
    held = golden("files")
    verdict = asked(held, KnownHistory(stateful=True))
    assert (
        the(verdict, "state.dir-missing").condition == "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
    )
    assert asked(held).verdict is ReportStatus.OK


def test_a_watermark_without_state_is_one_consistent_failure() -> None:
    """It was reported as a restart that runs, cannot start, and that Spark never notices."""
    held = golden("files")
    watermark = put(
        "offsets/4",
        (held.checkpoint.text("offsets/4") or "")
        .replace('"batchWatermarkMs":0', '"batchWatermarkMs":1700000000000')
        .encode(),
    )
    verdict = asked(with_checkpoint(held, watermark))
    finding = the(verdict, "state.dir-missing")
    assert verdict.verdict is ReportStatus.BROKEN and finding.evidence["likely"] is True
    assert (finding.effect, finding.when) == (RestartEffect.FAILS, FIRST_BATCH)
    sentence = list(report_lines(verdict))[1]
    assert "will fail if it is stateful" in sentence, "a stateless query may have a watermark"
    assert summary(verdict).startswith("A restart of the query fails if it is stateful: ")
    assert finding.condition == "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
    known = asked(with_checkpoint(held, watermark), KnownHistory(stateful=False))
    assert "state.dir-missing" not in {each.check for each in known.findings}


def used_twice(planned_at: float, sources_changed: float | None) -> Inventory:
    """The checkpoint of `files.union(files)`: two lines an entry, one folder below sources/."""
    head = {"batchWatermarkMs": 0, "batchTimestampMs": int(planned_at * 1000), "conf": {}}
    entry = f'v1\n{json.dumps(head)}\n{{"logOffset":0}}\n{{"logOffset":0}}'.encode()
    log = b'v1\n{"path":"file:///in/a.json","timestamp":1,"batchId":0}'
    contents = {
        "metadata": b'{"id":"11111111-1111-4111-8111-111111111111"}',
        "offsets/0": entry,
        "commits/0": b'v1\n{"nextBatchWatermarkMs":0}',
        "sources/0/0": log,
    }
    entries = {path: FileEntry(len(data), planned_at + 1) for path, data in contents.items()}
    entries |= {"sources/0": FileEntry(0, planned_at, folder=True)}
    entries |= {"sources": FileEntry(0, sources_changed, folder=True)}
    return Inventory("/c", entries, contents, collected_at=planned_at + 99)


AT = 1_795_000_000.0


@pytest.mark.parametrize(
    ("inventory", "reported", "healthy"),
    [
        (used_twice(AT, AT - 5), None, True),  # nothing was removed from sources/ since the batch
        (used_twice(AT, AT + 60), None, False),
        (used_twice(AT, None), None, False),  # S3
        (used_twice(AT, None), 1, True),  # its report names one stream
        (used_twice(AT, AT - 5), 2, False),  # a lost log: the reports name two streams
    ],
)
def test_a_stream_used_twice_has_one_log(inventory: Inventory, reported: int | None, healthy: bool) -> None:
    """A healthy checkpoint of `stream.union(stream)` was called broken."""
    report = ReportedBatch(AT + 2, ({"logOffset": 0},) * (reported or 0))
    history = KnownHistory(reports={0: report}) if reported else KnownHistory()
    verdict = analyze(inventory, SPARK, history=history)
    assert (verdict.verdict is ReportStatus.OK) is healthy
    if not healthy:
        assert the(verdict, "src.file-log-behind-offset").effect == "fails"
    inferred = not healthy and reported is None
    assert verdict.condition == (" if it does not use a stream twice" if inferred else "")


def test_a_watermark_needs_no_state_where_nothing_was_removed_since_the_last_batch() -> None:
    """A stateless query with a watermark was called broken."""
    held = used_twice(AT, AT - 5)
    entry = held.contents["offsets/0"].replace(b'"batchWatermarkMs": 0', b'"batchWatermarkMs": 1700000000000')
    marked = replace(held, contents={**held.contents, "offsets/0": entry})
    for root_modified, expected in (
        (AT - 5, ReportStatus.OK),
        (AT + 5, ReportStatus.BROKEN),
        (None, ReportStatus.BROKEN),
    ):
        verdict = analyze(replace(marked, root_modified=root_modified), SPARK)
        assert verdict.verdict is expected, root_modified
    copied = replace(
        marked,
        root_modified=AT + 3000,
        entries={p: replace(e, modified=AT + 3600) for p, e in marked.entries.items()},
    )
    assert analyze(copied, SPARK).verdict is ReportStatus.BROKEN


@pytest.mark.parametrize("place", ["/lake/out put", "/lake/out put/_spark_metadata"])
def test_a_sink_s_output_is_recognized_and_the_option_for_it_named(place: str) -> None:
    log = {"0": FileEntry(10, 1.0)}
    if not place.endswith("_spark_metadata"):
        log = {"_spark_metadata": FileEntry(0, 1.0, folder=True), "_spark_metadata/0": FileEntry(10, 1.0)}
    (finding,) = analyze(Inventory(place, log)).findings
    assert finding.check == "ckpt.not-a-checkpoint"
    assert finding.remedy[0].endswith("controlplane doctor CHECKPOINT --output '/lake/out put'")


def test_memory_of_the_id_shows_that_it_was_changed() -> None:
    held = golden("files")
    known = str(asked(held).query_id)
    assert asked(held, KnownHistory(query_id=known)).verdict is ReportStatus.OK
    assert the(asked(held, KnownHistory(query_id="other")), "meta.id-changed").evidence["found"] == known


def test_a_moved_checkpoint_of_transform_with_state_is_broken_where_it_is_known_to_run_here() -> None:
    held = golden("tws")
    moved = replace(held, checkpoint=replace(held.checkpoint, relocations=()))
    assert asked(moved).verdict is ReportStatus.OK
    assert the(asked(moved), "state.schema-path-dangling").severity == "info"
    verdict = asked(moved, KnownHistory(location="/lake/checkpoints/moved"))
    assert the(verdict, "state.schema-path-dangling").effect == "fails"


def test_a_root_that_changed_long_after_the_last_batch_betrays_that_state_was_taken() -> None:
    held = golden("agg")
    taken = with_checkpoint(held, lose("state")).checkpoint
    newest = max(entry.modified or 0 for entry in taken.entries.values())
    late, soon = (replace(taken, root_modified=newest + seconds) for seconds in (600.0, 5.0))
    assert the(analyze(late, SPARK), "state.dir-missing").evidence["likely"] is True
    assert analyze(soon, SPARK).verdict is ReportStatus.OK
    foreign = put("notes.txt", b"x")(late)
    assert analyze(foreign, SPARK).verdict is ReportStatus.OK
    folders = {path: replace(e, modified=newest + 600.0) for path, e in late.entries.items() if e.folder}
    copied = replace(late, entries={**late.entries, **folders})
    assert analyze(copied, SPARK).verdict is ReportStatus.OK


def test_a_sparse_log_of_asynchronous_progress_is_a_note() -> None:
    held = golden("files").checkpoint
    content = held.contents["offsets/4"].replace(b'"logOffset":4', b'"other":4')
    entries = {
        f"{log}/{n}": FileEntry(len(content)) for log in ("offsets", "commits") for n in (0, 2, 7, 12, 17)
    }
    contents = {path: content if path.startswith("offsets") else b"v1\n{}" for path in entries}
    metadata = {"metadata": held.contents["metadata"]}
    sparse = Inventory(
        "/c", {**entries, "metadata": FileEntry(len(metadata["metadata"]))}, {**contents, **metadata}
    )
    verdict = analyze(sparse, SPARK)
    assert verdict.verdict is ReportStatus.OK
    assert "asynchronous" in the(verdict, "log.offset-previous-missing").message
    assert json.dumps(verdict.as_json())
