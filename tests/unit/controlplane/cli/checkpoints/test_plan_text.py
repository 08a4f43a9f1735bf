"""Plans, offers and chances in words."""

from __future__ import annotations

import shlex

from controlplane.checkpoints.findings import ReportStatus
from controlplane.checkpoints.repair.repair_plan import Diagnosis, RepairOffer
from controlplane.checkpoints.repair.rewind_plan import RewindTarget
from controlplane.checkpoints.repair.steps import CHECKPOINT, OUTPUT, Prune, Remove, RepairPlan, Write
from controlplane.cli.checkpoints.plan_text import diagnosis_lines, plan_lines, rewind_target_lines

STEPS = (
    *(Remove(CHECKPOINT, f"offsets/{n}") for n in range(9)),
    Remove(CHECKPOINT, "offsets/.8.crc"),
    Remove(OUTPUT, "_spark_metadata/8"),
    Prune(CHECKPOINT, "state/0"),
    Write(CHECKPOINT, "metadata", b"{}"),
)


def test_a_plan_is_a_line_for_each_folder_and_names_a_few_files() -> None:
    reported = plan_lines(RepairPlan("rewind", "batch 0 runs next", STEPS, ("rows come again",)))
    assert reported[0] == "PLAN  batch 0 runs next"
    assert "  remove from the checkpoint, offsets: 0, 1, 2, 3, 4, 5 and 3 more" in reported
    assert "  remove from the output, _spark_metadata: 8" in reported
    assert "  write into the checkpoint, its root: metadata" in reported
    assert "  and 1 checksum file beside them" in reported
    assert reported[-1] == "  - rows come again"


def test_rewind_targets_are_shown_as_ranges_with_reasons() -> None:
    possible = [RewindTarget(batch) for batch in (9, 8, 7)]
    gone = [RewindTarget(batch, "offsets/4 is not there") for batch in (6, 5)]
    reported = rewind_target_lines([*possible, *gone, RewindTarget(0)], 10)
    assert reported == [
        "Batch 10 runs next. Possible values of --resume-at:",
        "  9 to 7: yes",
        "  6 to 5: no, offsets/4 is not there",
        "  0: yes",
    ]
    assert "starts at batch 0" in rewind_target_lines([], 0)[0]


def test_offer_shows_needed_confirmation_or_why_it_is_not_possible() -> None:
    waits = RepairOffer(
        "R-STATE-1",
        "run batch 4 again",
        ("c",),
        (Remove(CHECKPOINT, "commits/4"),),
        ("twice",),
        needs_confirmation=True,
    )
    blocked = RepairOffer("R-META-1", "write the id", ("m",), blocked="the id is not known")
    reported = diagnosis_lines(Diagnosis((), (waits, blocked), None, (), 4), ReportStatus.BROKEN, "/ck")
    assert "  R-STATE-1 needs --confirm R-STATE-1: run batch 4 again" in reported
    assert "    - the id is not known" in reported
    assert reported[-2:] == [
        "    controlplane rewind /ck --resume-at 4",
        "    add --output PATH if the query writes files",
    ]


def test_a_command_to_go_back_is_one_line_with_all_that_it_needs() -> None:
    options = ["--output", "/a rather long place of an output/that has a space in its name", "--input", "/in"]
    reported = diagnosis_lines(Diagnosis((), (), None, (), 5), ReportStatus.BROKEN, "/ck", options)
    assert (
        reported[-1] == f"    {shlex.join(['controlplane', 'rewind', '/ck', '--resume-at', '5', *options])}"
    )


def test_healthy_checkpoint_has_nothing_to_repair() -> None:
    reported = diagnosis_lines(Diagnosis((), (), None, (), None), ReportStatus.OK, "/ck")
    assert reported == ["Nothing to repair: this checkpoint is ok."]
