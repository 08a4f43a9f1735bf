"""rewind, repair and undo from the command line: output, refusals, effects and exit codes, with and without a server."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from controlplane.checkpoints.repair import writer_detection
from controlplane.cli.checkpoints.repair import RepairSession
from controlplane.cli.main import run
from tests.acceptance.live import LiveServer
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery
from tests.checkpoint_cases import unpack

WHOLE, LOST_STATE = "dedup-baseline-ok", "dedup-delta-missing"
LOST_ID, SINK = "metadata-missing", "sink-metadata-ahead"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    unpack(folder, only=(WHOLE, LOST_STATE, LOST_ID, SINK))
    return folder


@pytest.fixture
def case(unpacked: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    name = getattr(request, "param", WHOLE)
    return Path(shutil.copytree(unpacked / name, tmp_path / "case"))


@dataclass(frozen=True)
class Answer:
    returncode: int
    stdout: str
    stderr: str


def controlplane(*arguments: str | Path) -> Answer:
    """The command line in this process: its exit code and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    return Answer(code, out.getvalue(), err.getvalue())


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def backup_of(case: Path) -> Path:
    (found,) = case.glob("checkpoint.backup-*")
    return found


def test_rewind_shows_its_plan_applies_it_and_can_be_undone(case: Path) -> None:
    checkpoint, before = case / "checkpoint", content(case / "checkpoint")
    shown = controlplane("rewind", checkpoint, "--resume-at", "2", "--dry-run")
    assert shown.returncode == 0 and shown.stdout.startswith("PLAN  batch 2 runs next, instead of batch 4")
    assert "foreachBatch" in shown.stdout and content(checkpoint) == before
    done = controlplane("rewind", checkpoint, "--resume-at", "2", "--yes", "--assume-stopped")
    assert done.returncode == 0, done.stderr
    backup = backup_of(case)
    assert f"controlplane undo {backup}" in done.stdout and "next batch 2" in done.stdout
    undone = controlplane("undo", backup, "--assume-stopped")
    assert undone.returncode == 0 and "restored" in undone.stdout
    assert content(checkpoint) == before
    assert "nothing to undo" in controlplane("undo", backup, "--assume-stopped").stdout


def test_list_shows_possible_batches_and_reasons_for_the_others(case: Path) -> None:
    (case / "checkpoint/offsets/0").unlink()
    output = controlplane("rewind", case / "checkpoint", "--list").stdout
    assert "Batch 4 runs next. Possible values of --resume-at:" in output
    assert "  3: yes" in output and "  2: no, offsets/0 does not exist" in output
    rows = json.loads(controlplane("rewind", case / "checkpoint", "--list", "--json").stdout)["batches"]
    assert {row["resume_at"]: row["possible"] for row in rows} == {3: True, 2: False, 1: False, 0: True}


def test_json_output_has_plan_backup_and_verdict(case: Path) -> None:
    done = controlplane(
        "rewind", case / "checkpoint", "--resume-at", "1", "--yes", "--assume-stopped", "--json"
    )
    output = json.loads(done.stdout)
    assert output["plan"]["kind"] == "rewind" and output["verdict"]["verdict"] == "ok"
    assert output["backup"] == str(backup_of(case))
    assert {step["action"] for step in output["plan"]["steps"]} == {"remove"}


def test_without_a_terminal_nothing_changes_without_yes(case: Path) -> None:
    before = content(case)
    answer = controlplane("rewind", case / "checkpoint", "--resume-at", "2", "--assume-stopped")
    assert answer.returncode == 2 and "--yes" in answer.stderr and "PLAN" in answer.stdout
    assert content(case) == before


def test_writer_between_two_listings_is_detected(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_detection, "MIN_PAUSE_SECONDS", 3.0)
    writer = threading.Timer(1, lambda: (case / "checkpoint/offsets/4").write_text("v1\n{}\n{}"))
    writer.start()
    before = content(case)
    answer = controlplane("rewind", case / "checkpoint", "--resume-at", "2", "--yes")
    writer.join()
    assert answer.returncode == 2
    assert (
        "another process writes to this checkpoint" in answer.stderr and "offsets/4 appeared" in answer.stderr
    )
    assert {path: data for path, data in content(case).items() if path in before} == before
    assert not list(case.glob("*.backup-*"))


@pytest.mark.parametrize("case", [LOST_STATE], indirect=True)
def test_a_repair_that_delivers_again_waits_for_its_confirmation(case: Path) -> None:
    checkpoint = case / "checkpoint"
    waiting = controlplane("repair", checkpoint, "--yes", "--assume-stopped")
    assert waiting.returncode == 1
    assert "R-STATE-1 needs --confirm R-STATE-1" in " ".join(waiting.stdout.split())
    assert "controlplane rewind" in waiting.stdout and not list(case.glob("*.backup-*"))
    done = controlplane("repair", checkpoint, "--confirm", "R-STATE-1", "--yes", "--assume-stopped")
    assert done.returncode == 0, done.stdout + done.stderr
    assert controlplane("doctor", checkpoint).returncode == 0
    undone = controlplane("undo", backup_of(case), "--assume-stopped")
    assert undone.returncode == 1 and "restored" in undone.stdout and "BROKEN" in undone.stdout
    assert controlplane("doctor", checkpoint).returncode == 2


@pytest.mark.parametrize("case", [LOST_ID], indirect=True)
def test_a_lost_id_is_written_where_it_is_given(case: Path) -> None:
    known = "9b43c760-2baa-4810-939c-6c4fb7c86f89"
    asked = controlplane("repair", case / "checkpoint", "--dry-run")
    assert "--query-id" in asked.stdout
    options = ("--query-id", known, "--yes", "--assume-stopped", "--json")
    done = controlplane("repair", case / "checkpoint", *options)
    output = json.loads(done.stdout)
    assert done.returncode == 0 and [offer["id"] for offer in output["repairs"]] == ["R-META-1"]
    assert json.loads((case / "checkpoint/metadata").read_text()) == {"id": known}


@pytest.mark.parametrize("case", [SINK], indirect=True)
def test_a_file_sink_is_cut_with_the_checkpoint(case: Path) -> None:
    arguments = ("--output", case / "out", "--yes", "--assume-stopped")
    done = controlplane("rewind", case / "checkpoint", "--resume-at", "3", *arguments)
    assert done.returncode == 0, done.stderr
    left = {path.name for path in (case / "out/_spark_metadata").iterdir() if path.name.isdigit()}
    assert left == {"0", "1", "2"}


def test_interrupted_repair_is_detected_and_its_backup_named(case: Path) -> None:
    (case / "checkpoint/metadata").write_text(
        "rewind, repair or undo in progress; to restore the checkpoint: controlplane undo /some/backup"
    )
    for command in (("rewind", case / "checkpoint", "--resume-at", "2"), ("repair", case / "checkpoint")):
        answer = controlplane(*command, "--yes")
        assert answer.returncode == 2 and "controlplane undo /some/backup" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["rewind", "."], "give --resume-at R, or --list"),
        (["rewind", ".", "--resume-at", "1", "--move-data"], "--move-data needs --output"),
        (["rewind", "nowhere", "--resume-at", "1"], "There is nothing at this path"),
        (["rewind", ".", "--resume-at", "1"], "The folder has no metadata, offsets/"),
        (["rewind", "gopher://x", "--resume-at", "1"], "gopher://x"),
        (["repair", "nowhere"], "There is nothing at this path"),
        (["repair", ".", "--query-id", "me"], "'me' is not a UUID"),
        (["repair", ".", "--confirm", "R-ALL"], "R-ALL"),
        (["undo", "."], "it has no manifest.json"),
        (["undo", "gopher://x"], "gopher://x"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = controlplane(*arguments, "--assume-stopped")
    assert answer.returncode == 2
    assert expected in answer.stderr
    assert len(answer.stderr.splitlines()) == 1 and "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("batch", "expected"), [("9", "a rewind only goes back"), ("4", "batch 4 already runs next")]
)
def test_impossible_rewind_is_refused_and_changes_nothing(case: Path, batch: str, expected: str) -> None:
    before = content(case)
    answer = controlplane("rewind", case / "checkpoint", "--resume-at", batch, "--yes", "--assume-stopped")
    assert answer.returncode == 2 and expected in answer.stderr
    assert content(case) == before


def test_a_no_is_a_no(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    before = content(case)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    answer = controlplane("rewind", case / "checkpoint", "--resume-at", "2", "--assume-stopped")
    assert answer.returncode == 2 and "nothing was changed" in answer.stderr
    assert content(case) == before


def test_closed_output_still_reports_the_change_on_standard_error(case: Path, tmp_path: Path) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            if "Done" in text:
                raise BrokenPipeError(32, "Broken pipe")
            return super().write(text)

        def fileno(self) -> int:
            return held.fileno()

    err = io.StringIO()
    arguments = ["rewind", str(case / "checkpoint"), "--resume-at", "2", "--yes", "--assume-stopped"]
    with (
        (tmp_path / "held").open("w") as held,
        contextlib.redirect_stdout(Gone()),
        contextlib.redirect_stderr(err),
    ):
        code = run(arguments)
    assert code == 141
    assert f"the checkpoint was changed, the backup is {backup_of(case)}" in err.getvalue()
    assert "nothing was changed" not in err.getvalue()


def test_outcome_that_cannot_be_checked_is_reported_as_changed(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: RepairSession, *_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(RepairSession, "_conclude", fail)
    answer = controlplane("rewind", case / "checkpoint", "--resume-at", "2", "--yes", "--assume-stopped")
    assert answer.returncode == 1 and str(backup_of(case)) in answer.stderr
    assert "nothing was changed" not in answer.stderr


def test_forced_undo_is_checked(case: Path) -> None:
    checkpoint = case / "checkpoint"
    controlplane("rewind", checkpoint, "--resume-at", "2", "--yes", "--assume-stopped")
    (checkpoint / "offsets/2").write_text("v1\n{}\n-")
    options = ("--assume-stopped", "--json")
    assert controlplane("undo", backup_of(case), *options).returncode == 2
    output = json.loads(controlplane("undo", backup_of(case), "--force", *options).stdout)
    assert output["verdict"]["verdict"] == "ok" and output["verdict"]["next_batch"] == 4


def torn(case: Path) -> Path:
    """The newest batch, which the file sink has, was never committed, and its plan is torn."""
    checkpoint = case / "checkpoint"
    newest = max(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    (checkpoint / f"commits/{newest}").unlink(missing_ok=True)
    (checkpoint / f"offsets/{newest}").write_text("v1\n")
    return checkpoint


@pytest.mark.parametrize("case", [SINK], indirect=True)
def test_batch_that_a_file_sink_may_have_needs_confirmation(case: Path) -> None:
    checkpoint, before = torn(case), content(case)
    answer = controlplane("repair", checkpoint, "--yes", "--assume-stopped")
    assert answer.returncode == 1 and "R-OFF-1 needs --confirm R-OFF-1" in answer.stdout
    assert "--output" in answer.stdout and content(case) == before


@pytest.mark.parametrize("case", [SINK], indirect=True)
def test_the_way_back_that_repair_names_is_right_as_it_is_printed(case: Path) -> None:
    output = controlplane("repair", torn(case), "--output", case / "out", "--yes", "--assume-stopped").stdout
    (way,) = [line for line in output.splitlines() if line.strip().startswith("controlplane rewind")]
    done = controlplane(*shlex.split(way)[1:], "--yes", "--assume-stopped")
    assert done.returncode == 0, done.stderr
    judged = controlplane("doctor", case / "checkpoint", "--output", case / "out").stdout
    assert "sink.metadata-ahead" not in judged and "BROKEN" not in judged


# With a server


def known_to(agent: SimulatedAgent, case: Path) -> SimulatedQuery:
    query_id = json.loads((case / "checkpoint/metadata").read_text())["id"]
    query = SimulatedQuery("repaired", query_id=query_id, active=True)
    agent.start(query)
    agent.send(agent.progress(query))
    return query


def test_a_query_that_the_server_sees_running_is_not_operated_on(
    case: Path, server: LiveServer, agent: SimulatedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTROLPLANE_TOKEN", server.admin_token)
    query, before = known_to(agent, case), content(case)
    rewind = (
        "rewind",
        case / "checkpoint",
        "--resume-at",
        "2",
        "--yes",
        "--assume-stopped",
        "--server",
        server.url,
    )
    refused = controlplane(*rewind)
    assert refused.returncode == 2
    assert "stop it first" in refused.stderr and query.query_id in refused.stderr
    assert content(case) == before
    agent.terminated(query)
    done = controlplane(*rewind)
    assert done.returncode == 0, done.stderr
    assert "the server was asked to check it again" in done.stderr
    with server.client() as client:
        assert client.get(f"/api/v1/checkpoints/{query.query_id}").json()["checkpoint"]["collecting"]
    known_to(agent, case)
    back = controlplane("undo", backup_of(case), "--assume-stopped", "--server", server.url)
    assert back.returncode == 2 and "stop it first" in back.stderr


def test_a_copy_is_operated_on_while_its_original_runs(
    case: Path, tmp_path: Path, server: LiveServer, agent: SimulatedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTROLPLANE_TOKEN", server.admin_token)
    query, original = known_to(agent, case), case / "checkpoint"
    rewind = ("--resume-at", "2", "--yes", "--assume-stopped", "--server", server.url)
    copy = shutil.copytree(original, tmp_path / "copy")
    unknown = controlplane("rewind", copy, *rewind)
    assert unknown.returncode == 2 and "if this is a copy of that, give --relocate" in unknown.stderr
    agent.send(("status", agent.status(query, facts={"checkpoint": f"file:{original}"})))
    assert controlplane("rewind", original, *rewind).returncode == 2
    done = controlplane("rewind", copy, *rewind)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", [SINK], indirect=True)
@pytest.mark.parametrize("command", [("rewind", "--resume-at", "2"), ("repair",)])
def test_a_query_that_writes_files_requires_the_output(
    command: tuple[str, ...],
    case: Path,
    server: LiveServer,
    agent: SimulatedAgent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONTROLPLANE_TOKEN", server.admin_token)
    query, before = known_to(agent, case), content(case)
    agent.send(agent.progress(query, sink={"description": "FileSink[file:/lake/out]"}))
    agent.terminated(query)
    options = ("--yes", "--assume-stopped", "--server", server.url)
    refused = controlplane(command[0], case / "checkpoint", *command[1:], *options)
    assert refused.returncode == 2 and "give --output file:/lake/out" in refused.stderr
    assert content(case) == before


def test_a_server_that_was_named_must_answer(case: Path) -> None:
    answer = controlplane("rewind", case / "checkpoint", "--resume-at", "2", "--server", "http://127.0.0.1:9")
    assert answer.returncode == 2 and "no server answers at" in answer.stderr
