"""The doctor's verdicts on checkpoints that real Spark wrote, compared with the outcome of a restart on them.

Also the command itself: output, exit codes and error messages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import CheckpointReport, RestartEffect, Severity
from controlplane.checkpoints.survey import collect_survey
from tests.checkpoint_cases import Case, cases, unpack
from tests.served_s3 import ServedS3

NOW = 1_795_160_000.0
#: Cases whose checkpoint is not there any more: a start begins anew, and there is nothing to judge.
GONE = {"checkpoint-deleted-sink-kept", "checkpoint-deleted-sink-kept__35"}
#: Cases that only the modification time of the root folder reveals: the disk does not show whether the query had state.
FROM_TIMES_ALONE = {
    name + suffix for name in ("state-dir-missing", "dedup-state-dir-missing") for suffix in ("", "__35")
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    unpack(folder)
    return folder


@pytest.fixture(scope="module")
def verdicts(unpacked: Path) -> dict[str, tuple[Case, CheckpointReport]]:
    return {case.name: (case, verdict_of(case)) for case in cases(unpacked)}


def verdict_of(case: Case) -> CheckpointReport:
    relocations = case.relocations
    held = collect_survey(
        case.checkpoint, NOW, output=case.output, inputs=case.inputs, relocations=relocations
    )
    return analyze(held.checkpoint, case.target, output=held.output, inputs=held.inputs)


def share(verdicts: dict[str, tuple[Case, CheckpointReport]], wanted: str, printed: set[str]) -> float:
    held = [verdict.verdict for case, verdict in verdicts.values() if case.wanted == wanted]
    assert held
    return sum(verdict in printed for verdict in held) / len(held)


def test_the_cases_are_all_there(verdicts: dict[str, tuple[Case, CheckpointReport]]) -> None:
    assert Counter(case.wanted for case, _ in verdicts.values()) == {"broken": 105, "ok": 59, "risky": 18}


def test_what_fails_is_called_broken(verdicts: dict[str, tuple[Case, CheckpointReport]]) -> None:
    assert share(verdicts, "broken", {"broken"}) >= 0.97
    called_ok = {
        name for name, (case, v) in verdicts.items() if case.wanted == "broken" and v.verdict == "ok"
    }
    assert called_ok == set()


@pytest.mark.long
def test_a_checkpoint_on_s3_is_judged_as_on_the_disk(
    verdicts: dict[str, tuple[Case, CheckpointReport]], s3: ServedS3
) -> None:
    """But for what only folders show: S3 has no empty ones, and no times of any."""
    for name in sorted(verdicts.keys() - FROM_TIMES_ALONE - GONE)[::20]:
        case, report = verdicts[name]
        root = Path(case.checkpoint)
        files = [path for path in root.rglob("*") if path.is_file()]
        bucket = s3.bucket({f"ck/{path.relative_to(root)}": path.read_bytes() for path in files})
        held = collect_survey(
            f"s3a://{bucket}/ck", NOW, output=case.output, inputs=case.inputs, relocations=case.relocations
        )
        judged = analyze(held.checkpoint, case.target, output=held.output, inputs=held.inputs)
        assert checks_of(judged) == checks_of(report), name


def checks_of(report: CheckpointReport) -> tuple[str, set[str]]:
    return report.verdict, {finding.check for finding in report.findings}


def test_finding_based_on_file_times_gives_its_reason(
    verdicts: dict[str, tuple[Case, CheckpointReport]],
) -> None:
    for name in FROM_TIMES_ALONE:
        (finding,) = [f for f in verdicts[name][1].findings if f.severity is Severity.ERROR]
        assert finding.check == "state.dir-missing" and finding.evidence["likely"] is True


def test_what_runs_and_harms_is_called_risky(verdicts: dict[str, tuple[Case, CheckpointReport]]) -> None:
    assert share(verdicts, "risky", {"risky"}) >= 0.9


def test_what_is_fine_is_seldom_called_anything_else(
    verdicts: dict[str, tuple[Case, CheckpointReport]],
) -> None:
    assert share(verdicts, "ok", {"risky", "broken"}) <= 0.03
    for name, (case, verdict) in verdicts.items():
        if case.wanted == "ok" and name not in GONE:
            grave = {finding.check for finding in verdict.findings if finding.severity is not Severity.INFO}
            assert grave <= {"log.inflight"}, name


def test_condition_that_spark_raised_is_among_the_predicted_ones(
    verdicts: dict[str, tuple[Case, CheckpointReport]],
) -> None:
    wrong = {}
    for name, (case, verdict) in verdicts.items():
        raised = case.reported["restart_outcome"]["error_condition"] or ""
        foretold = {f.condition for f in verdict.findings if f.effect is RestartEffect.FAILS and f.condition}
        if raised.isupper() and raised != "STREAM_FAILED" and raised not in foretold:
            wrong[name] = (raised, foretold)
    assert wrong == {}


def test_without_output_and_relocation_no_failure_is_missed_and_nothing_fine_is_blamed(
    unpacked: Path,
) -> None:
    """As on a copy of which nothing is known: the version is the one that wrote it."""
    moved_versions = {"downgrade-agg_rocksv2__35_from43", "upgrade-join__43_from35"}
    for case in cases(unpacked):
        verdict = analyze(collect_survey(case.checkpoint, 1_795_160_000.0).checkpoint)
        if case.wanted == "broken" and case.name not in moved_versions:
            assert verdict.verdict == "broken", case.name
        if case.wanted == "ok" and case.name not in GONE:
            assert verdict.verdict in ("ok", "risky"), case.name


# The command


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "controlplane", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def objects(text: str) -> Iterator[dict[str, object]]:
    return (json.loads(line) for line in text.splitlines())


def test_several_checkpoints_are_one_object_a_line_and_the_worst_is_the_exit_code(unpacked: Path) -> None:
    names = ["dedup-baseline-ok", "sink-metadata-compact-torn", "commit-ahead-of-offset"]
    arguments = [str(unpacked / name / "checkpoint") for name in names]
    output = str(unpacked / "sink-metadata-compact-torn/out")
    answer = doctor("--json", *arguments)
    reported = list(objects(answer.stdout))
    assert [held["checkpoint"] for held in reported] == arguments
    assert [held["verdict"] for held in reported] == ["ok", "ok", "broken"]
    assert answer.returncode == 2
    assert set(reported[2]) >= {
        "query_id",
        "spark_version",
        "last_planned_batch",
        "last_committed_batch",
        "findings",
    }
    assert doctor("--json", arguments[0]).returncode == 0
    assert doctor("--json", arguments[1], "--output", output).returncode == 1


def test_text_output_has_effect_time_and_remedy(unpacked: Path) -> None:
    answer = doctor(str(unpacked / "commit-ahead-of-offset/checkpoint"))
    text = " ".join(answer.stdout.split())
    assert text.startswith("BROKEN")
    assert "A restart with Spark 4.3.0 will fail" in text
    assert "in the first batch: CONCURRENT_STREAM_LOG_UPDATE" in text
    assert "1. stop everything that restarts the query" in text


def test_doctor_writes_nothing_into_the_checkpoint(unpacked: Path) -> None:
    folder = unpacked / "kill9-mid-batch-agg_hdfs/checkpoint"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    doctor(str(folder))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_saved_inventory_gets_the_same_verdict_elsewhere(unpacked: Path, tmp_path: Path) -> None:
    folder, saved = unpacked / "sink-metadata-ahead", tmp_path / "saved.json"
    given = ["--output", str(folder / "out"), "--input", str(folder / "in")]
    there = doctor("--json", str(folder / "checkpoint"), *given, "--save-inventory", str(saved))
    here = doctor("--json", "--inventory", str(saved))
    assert there.stdout == here.stdout
    assert (there.returncode, here.returncode) == (1, 1)


def test_what_is_no_checkpoint_ends_with_3(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no checkpoint")
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "notes.txt"):
        answer = doctor("--json", str(place))
        assert answer.returncode == 3
        assert [held["verdict"] for held in objects(answer.stdout)] == ["unreadable"]
    assert "pip install gcsfs" in doctor("gs://bucket/checkpoint").stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "give a CHECKPOINT or --inventory F"),
        (["x", "--target-spark", "four"], "'four' is not a Spark version such as 4.3.0"),
        (["x", "--relocate", "here"], "'here' is not FROM=TO"),
        (["--inventory", "nowhere.json"], "cannot read nowhere.json"),
        (["x", "y", "--save-inventory", "z"], "takes exactly one CHECKPOINT"),
        (["x", "--output", "gopher://y"], "gopher://y"),
        (["--inventory", "pyproject.toml"], "pyproject.toml: it is not JSON"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(arguments: list[str], expected: str) -> None:
    answer = doctor(*arguments)
    assert answer.returncode == 2
    assert expected in answer.stderr
    assert len(answer.stderr.splitlines()) == 1 and "Traceback" not in answer.stderr
