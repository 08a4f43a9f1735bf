"""Repairs on paper: what is offered for which damage, what waits for a word, what is left to people."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.reading.versions import parse_version
from controlplane.checkpoints.repair import repair_plan, rewind_plan
from controlplane.checkpoints.repair.repair_plan import REPAIR_IDS, Diagnosis, RepairContext, diagnose
from controlplane.checkpoints.repair.steps import Remove, Write, apply_steps
from controlplane.checkpoints.survey import Survey
from tests.unit.controlplane.checkpoints.goldens import Step, cut, edit, empty, flip, lose, put
from tests.unit.controlplane.checkpoints.repair.repair_fixtures import SPARK, seen

ID = "9b43c760-2baa-4810-939c-6c4fb7c86f89"


def diagnosed(held: Survey, *confirmed: str, known: str | None = ID, spark: str = "4.3.0") -> Diagnosis:
    target = parse_version(spark)
    return diagnose(RepairContext(held, target, rewind_plan.analyze_survey(held, target), known), confirmed)


def outcome(held: Survey, found: Diagnosis, spark: str = "4.3.0") -> str:
    assert found.plan is not None
    return rewind_plan.analyze_survey(apply_steps(held, found.plan.steps), parse_version(spark)).verdict


HEALED: list[tuple[str, list[Step], list[str]]] = [
    ("files", [lose("metadata")], ["R-META-1"]),
    ("files", [empty("metadata")], ["R-META-1"]),
    ("files", [put("metadata", b'{"id":"hello"}')], ["R-META-1"]),
    ("agg", [cut("offsets/4", 0.5), lose("commits/4")], ["R-OFF-1"]),
    ("agg", [put("offsets/9", b"v1\n{}\n{}")], ["R-OFF-1"]),
    ("agg", [lose("sources/0/4", "commits/4")], ["R-OFF-1"]),
    ("agg", [lose("state/0/0/5.delta")], ["R-STATE-1"]),
    ("agg", [empty("state/0/0/5.delta")], ["R-STATE-1"]),
    ("rocks", [cut("state/0/0/3.zip", 0.6)], ["R-STATE-1"]),
    ("v2", [lose("commits/3")], []),
    ("join", [lose("state/0/0/right-keyWithIndexToValue/5.delta")], ["R-STATE-1"]),
    ("files", [cut("commits/4", 0.5)], ["R-COM-2"]),
    ("agg", [empty("state/0/0/_metadata/schema")], ["R-STATE-3"]),
    ("agg", [lose("state/0/0/5.delta", "metadata")], ["R-STATE-1", "R-META-1"]),
]


@pytest.mark.parametrize(("name", "damage", "wanted"), HEALED)
def test_what_is_repaired_starts_again(name: str, damage: list[Step], wanted: list[str]) -> None:
    held = seen(name, damage)
    found = diagnosed(held, *REPAIR_IDS)
    assert [offer.id for offer in found.selected] == wanted
    if wanted:
        assert outcome(held, found) in ("ok", "risky")


def test_nothing_is_offered_for_what_is_whole() -> None:
    found = diagnosed(seen("agg"), *REPAIR_IDS)
    assert found == Diagnosis((), (), None, (), None)


def test_what_delivers_a_batch_again_waits_for_a_word() -> None:
    held = seen("agg", [lose("state/0/0/5.delta")])
    found = diagnosed(held)
    assert found.plan is None and found.rewind_to == 4
    (offer,) = found.offers
    assert offer.id == "R-STATE-1" and offer.needs_confirmation and offer.steps


def test_the_batch_that_runs_again_keeps_its_plan_and_its_input() -> None:
    plan = diagnosed(seen("agg", [lose("state/0/0/5.delta")]), "R-STATE-1").plan
    assert plan is not None
    gone = {step.path for step in plan.steps if isinstance(step, Remove) and not step.path.endswith(".crc")}
    assert gone == {"commits/4", "state/0/1/5.delta"}


def test_after_a_failed_start_the_entry_that_it_left_goes_too() -> None:
    failed = [lose("state/0/0/5.delta"), put("offsets/5", seen("agg").checkpoint.contents["offsets/4"])]
    plan = diagnosed(seen("agg", failed), "R-STATE-1").plan
    assert plan is not None
    assert {"offsets/5", "commits/4"} <= {step.path for step in plan.steps}


def test_state_that_is_lost_below_the_newest_version_is_not_written_by_one_batch() -> None:
    found = diagnosed(seen("agg", [lose("state/0/0/3.delta")]), *REPAIR_IDS)
    (offer,) = found.offers
    assert not offer.steps and "version 4 cannot be loaded either" in offer.blocked
    assert found.plan is None and found.rewind_to == 2


def test_unknown_query_id_is_requested_as_option() -> None:
    (offer,) = diagnosed(seen("files", [lose("metadata")]), known=None).offers
    assert offer.id == "R-META-1" and "--query-id" in offer.blocked


def test_the_id_is_written_as_spark_writes_it_and_no_stale_checksum_stays() -> None:
    plan = diagnosed(seen("files", [empty("metadata")])).plan
    assert plan is not None
    first, last = plan.steps
    assert isinstance(first, Remove) and first.path == ".metadata.crc"
    assert isinstance(last, Write) and last.content == json.dumps({"id": ID}, separators=(",", ":")).encode()


def test_batch_in_the_file_sink_is_not_planned_again() -> None:
    (offer,) = diagnosed(seen("files", [cut("offsets/4", 0.5), lose("commits/4")])).offers
    assert not offer.steps and "rows would be lost" in offer.blocked


def test_replanning_needs_no_confirmation_only_with_an_output() -> None:
    """A file sink that has the batch would skip it, and nobody looked."""
    torn = [cut("offsets/4", 0.5), lose("commits/4")]
    found = diagnosed(seen("agg", torn))
    (offer,) = found.offers
    assert found.plan is None and offer.id == "R-OFF-1" and offer.needs_confirmation
    assert any("--output" in text and "would be lost" in text for text in offer.consequences)
    named = replace(seen("agg", torn), output=Inventory("/out", {}))
    assert [offer.id for offer in diagnosed(named).selected] == ["R-OFF-1"]


def test_what_a_batch_left_in_state_goes_with_its_entry() -> None:
    """A snapshot of a batch that never was would be loaded under the changes of the one that comes."""
    torn = [cut("offsets/4", 0.5), lose("commits/4")]
    plan = diagnosed(seen("agg", torn), "R-OFF-1").plan
    assert plan is not None
    assert {"offsets/4", "state/0/0/5.delta", "state/0/1/5.delta"} <= {step.path for step in plan.steps}


def test_a_damaged_snapshot_goes_where_the_changes_hold_the_same() -> None:
    held = seen("rockscl", [flip("state/0/0/2.zip")]) if _has("rockscl", "state/0/0/2.zip") else None
    if held is None:
        held = seen("agg", [put("state/0/0/3.snapshot", b"no snapshot")])
    found = diagnosed(held, spark="3.5.9")
    assert [offer.id for offer in found.selected] == ["R-STATE-2"]
    assert outcome(held, found, "3.5.9") == "ok"


def _has(name: str, path: str) -> bool:
    return seen(name).checkpoint.is_file(path)


def test_of_a_stateful_query_a_lost_watermark_is_not_guessed() -> None:
    (offer,) = diagnosed(seen("agg", [cut("commits/4", 0.5)]), *REPAIR_IDS).offers
    assert offer.id == "R-COM-2" and not offer.steps and "are not known from the files" in offer.blocked


def test_findings_without_a_repair_stay_unresolved() -> None:
    found = diagnosed(seen("agg", [edit("offsets/4", "HDFSBackedStateStoreProvider", "Gone")]), *REPAIR_IDS)
    assert {finding.check for finding in found.unresolved} >= {"conf.custom-provider"}
    assert found.rewind_to == 4


def test_every_repair_has_its_name_in_the_list_that_the_command_knows() -> None:
    assert len(repair_plan.REPAIRS) == len(REPAIR_IDS)
    assert SPARK.since(4, 0)
