"""Rewinds on paper: what goes, what stays, which batches are possible, what the plan states will come of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.repair import rewind_plan
from controlplane.checkpoints.repair.errors import Impossible
from controlplane.checkpoints.repair.inspection import RepairPlaces, inspect
from controlplane.checkpoints.repair.steps import CHECKPOINT, OUTPUT, Remove, RepairPlan, Write, apply_steps
from controlplane.checkpoints.survey import Survey
from tests.acceptance.checkpoint_files import write
from tests.unit.controlplane.checkpoints.goldens import Step, change, edit, lose, put
from tests.unit.controlplane.checkpoints.repair.repair_fixtures import SPARK, judged, seen

EVERYONE = ("files", "agg", "rocks", "rockscl", "v2", "join", "dedup", "tws", "union", "foreachbatch")


def removed(plan: RepairPlan) -> set[str]:
    """Files of the checkpoint that go, without those that only sum others."""
    gone = (step for step in plan.steps if isinstance(step, Remove) and step.place == CHECKPOINT)
    return {step.path for step in gone if not step.path.endswith(".crc")}


@pytest.mark.parametrize("name", EVERYONE)
def test_after_a_rewind_the_requested_batch_is_next(name: str) -> None:
    held = seen(name)
    newest = rewind_plan.view_of(held, SPARK).planned
    assert newest is not None
    for batch in range(1, newest + 1):
        verdict = judged(held, rewind_plan.plan_rewind(held, batch, SPARK))
        assert verdict.next_batch == batch
        assert not rewind_plan.objections(verdict, rewind_plan.analyze_survey(held, SPARK)), verdict.findings


def test_what_goes_are_the_logs_from_that_batch_on_and_the_state_beyond_its_version() -> None:
    plan = rewind_plan.plan_rewind(seen("dedup"), 2, SPARK)
    logs = {f"{folder}/{batch}" for folder in ("offsets", "commits", "sources/0") for batch in (2, 3)}
    state = {f"state/0/{partition}/{version}.delta" for partition in (0, 1) for version in (3, 4)}
    assert removed(plan) == logs | state
    assert any(step.path == "offsets/.3.crc" for step in plan.steps)


def test_file_source_log_is_cut_by_offsets_not_by_batch() -> None:
    """A batch without new files adds no entry to the source's log, so its numbers lag behind the batches."""
    behind = edit("offsets/2", '"logOffset":2', '"logOffset":1')
    held = seen("dedup", [behind])
    assert {"sources/0/2", "sources/0/3"} <= removed(rewind_plan.plan_rewind(held, 3, SPARK))


def test_a_source_that_had_read_nothing_yet_forgets_all_its_files() -> None:
    void = change("offsets/1", lambda data: data.rpartition(b"\n")[0] + b"\n-")
    assert {f"sources/0/{n}" for n in range(4)} <= removed(
        rewind_plan.plan_rewind(seen("dedup", [void]), 2, SPARK)
    )


def test_batch_0_means_an_empty_state_and_the_same_id() -> None:
    held = seen("tws")
    plan = rewind_plan.plan_rewind(held, 0, SPARK)
    left = apply_steps(held, plan.steps).checkpoint
    assert not [
        path for path, entry in left.entries.items() if path.startswith("state/") and not entry.folder
    ]
    assert left.is_file("metadata") and judged(held, plan).verdict == "ok"


def without_tail(held: Survey, first: int) -> Survey:
    return apply_steps(
        held,
        [Remove("checkpoint", f"{folder}/{n}") for folder in ("offsets", "commits") for n in range(first)],
    )


def test_batches_that_spark_cannot_open_any_more_are_refused_with_the_file_that_lacks() -> None:
    held = without_tail(seen("dedup"), 2)
    found = {chance.batch: chance.reason for chance in rewind_plan.rewind_targets(held, SPARK)}
    assert found[3] is not None and "offsets/1 does not exist (the log starts at 2" in found[3]
    assert found[0] is None


@pytest.mark.parametrize(
    ("damage", "batch", "expected"),
    [
        ([lose("offsets/0")], 2, "offsets/0 does not exist (the log starts at 1"),
        ([lose("offsets/2")], 3, "offsets/2 does not exist (it is missing)"),
        ([lose("commits/1")], 2, "commits/1 is missing: Spark would run batch 1 again, not 2"),
        ([put("offsets/1", b"v1\n")], 2, "offsets/1 cannot be read"),
        ([], 9, "batch 4 runs next; a rewind only goes back"),
        ([], 4, "batch 4 already runs next"),
        ([lose("offsets", "commits")], 1, "there is no batch in offsets/"),
    ],
)
def test_impossible_rewind_gives_its_reason(damage: list[Step], batch: int, expected: str) -> None:
    with pytest.raises(Impossible) as caught:
        rewind_plan.plan_rewind(seen("dedup", damage), batch, SPARK)
    assert expected in str(caught.value)


def test_a_batch_beyond_the_entries_that_are_read_is_refused_as_such(tmp_path: Path) -> None:
    write(tmp_path, "f0dc0482-50a2-4e53-b4e2-46115cbe8a2d", committed=300)
    held = inspect(RepairPlaces(str(tmp_path)), 0.0)
    assert rewind_plan.plan_rewind(held, 52, SPARK).steps
    with pytest.raises(Impossible, match="batch 51 is older than the newest 250 batches"):
        rewind_plan.plan_rewind(held, 51, SPARK)


def test_missing_state_stops_a_rewind_to_its_version_and_all_above() -> None:
    held = seen("agg", [lose("state/0/0/3.delta")])
    found = {chance.batch: chance.reason for chance in rewind_plan.rewind_targets(held, SPARK)}
    assert [batch for batch in sorted(found) if found[batch] is None] == [0, 1, 2]
    assert "3.delta" in (found[3] or "")


def test_sparse_logs_of_asynchronous_progress_are_not_rewound() -> None:
    held = seen("files", [lose("offsets/1", "commits/1", "offsets/3", "commits/3")])
    with pytest.raises(Impossible, match="asynchronous progress"):
        rewind_plan.plan_rewind(held, 2, SPARK)


def test_lost_id_or_lost_state_is_not_fixed_by_a_rewind() -> None:
    held = seen("dedup", [put("metadata", b"")])
    assert all("metadata" in (chance.reason or "") for chance in rewind_plan.rewind_targets(held, SPARK))
    stateless = seen("dedup", [lose("state/0")])
    possible = [
        chance.batch for chance in rewind_plan.rewind_targets(stateless, SPARK) if chance.reason is None
    ]
    assert possible == [0]


# The file sink


def test_a_file_sink_forgets_the_batches_that_run_again() -> None:
    plan = rewind_plan.plan_rewind(seen("files"), 3, SPARK)
    gone = {step.path for step in plan.steps if step.place == OUTPUT and not step.path.endswith(".crc")}
    assert gone == {"_spark_metadata/3", "_spark_metadata/4"}
    assert any("Spark's readers see each row once" in text for text in plan.consequences)
    assert any("2 data files of those batches will stay" in text for text in plan.consequences)


def test_the_data_files_of_those_batches_go_too_where_that_is_asked_for() -> None:
    plan = rewind_plan.plan_rewind(seen("files"), 3, SPARK, data=True)
    gone = {step.path for step in plan.steps if step.place == OUTPUT}
    assert len([path for path in gone if path.startswith("part-")]) == 2


def test_without_an_output_the_plan_lists_consequences_per_sink() -> None:
    text = " ".join(rewind_plan.plan_rewind(seen("agg"), 3, SPARK).consequences)
    for word in ("--output", "foreachBatch", "Kafka", "Delta", "complete mode"):
        assert word in text


# Compactions


def test_a_rewind_over_a_compaction_needs_the_plain_entries_below_it() -> None:
    held = seen("files12")
    plan = rewind_plan.plan_rewind(held, 9, SPARK)
    assert "sources/0/9.compact" in removed(plan)
    assert judged(held, plan).next_batch == 9


def test_purged_plain_entries_are_written_from_the_compaction() -> None:
    purged = lose(*(f"sources/0/{n}" for n in range(9)))
    held = seen("files12", [purged])
    plan = rewind_plan.plan_rewind(held, 5, SPARK)
    written = {step.path: step.content for step in plan.steps if isinstance(step, Write)}
    whole = seen("files12").checkpoint.contents
    assert sorted(written) == [f"sources/0/{n}" for n in range(5)]
    assert all(content.split() == whole[path].split() for path, content in written.items() if path in whole)
    assert judged(held, plan).verdict == "ok"


def test_entries_in_no_compaction_are_not_rebuilt() -> None:
    purged = [lose(*(f"sources/0/{n}" for n in range(9))), put("sources/0/9.compact", b"v1\n")]
    with pytest.raises(Impossible, match="has no record of it"):
        rewind_plan.plan_rewind(seen("files12", purged), 5, SPARK)


# Input


def test_missing_input_is_reported_as_lost_rows() -> None:
    held = seen("files")
    (listed,) = held.inputs
    gone = sorted(path for path, entry in listed.entries.items() if not entry.folder)[4]
    less = Inventory(
        listed.root, {p: e for p, e in listed.entries.items() if p != gone}, guessed=listed.guessed
    )
    plan = rewind_plan.plan_rewind(Survey(held.checkpoint, held.output, (less,)), 4, SPARK)
    assert any("ROWS ARE LOST: 1 input file" in text and gone in text for text in plan.consequences)
    assert not any("ROWS ARE LOST" in text for text in rewind_plan.plan_rewind(held, 4, SPARK).consequences)


# The doctor on a rewind by hand, or an interrupted one


def test_a_snapshot_of_an_abandoned_line_is_noted_and_goes_with_a_rewind_to_the_batch_that_is_next() -> None:
    held = seen("agg", [put("state/0/0/9.snapshot", b"of another line")])
    (noted,) = [
        f for f in rewind_plan.analyze_survey(held, SPARK).findings if f.check == "state.snapshot-ahead"
    ]
    assert "--resume-at 5" in noted.remedy[0]
    plan = rewind_plan.plan_rewind(held, 5, SPARK)
    assert removed(plan) == {"state/0/0/9.snapshot"}
    assert not [f for f in judged(held, plan).findings if f.check == "state.snapshot-ahead"]
    assert not [
        f
        for f in rewind_plan.analyze_survey(seen("rocks"), SPARK).findings
        if f.check == "state.snapshot-ahead"
    ]


def test_interrupted_repair_is_the_first_finding() -> None:
    locked = put(
        "metadata",
        b"rewind, repair or undo in progress; to restore the checkpoint: controlplane undo /there/it is",
    )
    found = rewind_plan.analyze_survey(seen("agg", [locked]), SPARK).findings[0]
    assert (found.check, found.remedy) == ("ckpt.repair-unfinished", ("controlplane undo '/there/it is'",))
