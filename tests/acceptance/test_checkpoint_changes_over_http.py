"""Rewinds, repairs and undos that the server carries out, each an action on record."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.checkpoints.lock import LOCK
from controlplane.checkpoints.repair import change, execution, writer_detection
from controlplane.model import Role
from controlplane.store import audit
from tests.acceptance.checkpoint_files import write
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery

Json = dict[str, Any]
SHORT_SECONDS = 0.05


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause between two listings, which is at least ten seconds."""
    monkeypatch.setattr(writer_detection, "MIN_PAUSE_SECONDS", SHORT_SECONDS)
    monkeypatch.setattr(writer_detection, "MAX_PAUSE_SECONDS", SHORT_SECONDS)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    data = tmp_path_factory.mktemp("data")
    with live_server(data, checkpoint_roots=(str(root),), checkpoint_changes=True) as live:
        yield live


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client(server.token(Role.OPERATOR)) as operator:
        yield operator


def running(server: LiveServer, checkpoint: Path, **report: Any) -> tuple[SimulatedAgent, SimulatedQuery]:
    """A query on this checkpoint that runs and has reported batches 0 to 3."""
    agent, query = server.agent(), SimulatedQuery("orders")
    agent.begin()
    agent.start(query)
    agent.send(("status", agent.status(query, facts={"checkpoint": str(checkpoint)})))
    agent.send(*(agent.progress(query, stateOperators=[], **report) for _ in range(4)))
    write(checkpoint, query.query_id, committed=3)
    return agent, query


def stopped(server: LiveServer, checkpoint: Path, **report: Any) -> tuple[SimulatedAgent, SimulatedQuery]:
    """The same, stopped since."""
    agent, query = running(server, checkpoint, **report)
    agent.terminated(query)
    return agent, query


def post(client: httpx.Client, query: SimulatedQuery, kind: str, **body: Any) -> httpx.Response:
    key = body.pop("key", None)
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(f"/api/v1/checkpoints/{query.query_id}/{kind}", json=body, headers=headers)


def finished(client: httpx.Client, answer: httpx.Response) -> Json:
    """The action after its end."""
    assert answer.status_code in (200, 202), answer.text
    path = f"/api/v1/actions/{answer.json()['action']['id']}"

    def ended() -> Json | None:
        action: Json = client.get(path).json()["action"]
        return action if action["finished_at"] else None

    found: Json = eventually(ended, 30)
    return found


def content(checkpoint: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(checkpoint)): path.read_bytes()
        for path in checkpoint.rglob("*")
        if path.is_file()
    }


def test_a_rewind_is_carried_out_recorded_and_undone_to_the_byte(
    server: LiveServer, client: httpx.Client, root: Path
) -> None:
    _, query = stopped(server, root / "rewound")
    before = content(root / "rewound")
    assert client.get(f"/api/v1/checkpoints/{query.query_id}/rewind").json()["refusal"] is None
    done = finished(client, post(client, query, "rewind", resume_at=2, reason="bad records"))
    assert (done["state"], done["action"], done["request_reason"]) == ("succeeded", "rewind", "bad records")
    assert done["reason"].startswith(
        "batch 2 runs next, instead of batch 4. The next start resumes at batch 2"
    )
    assert done["overrides"] == {"resume_at": 2}
    assert not (root / "rewound/offsets/2").exists()
    backup = Path(done["evidence"]["backup"])
    assert backup.parent == root and (backup / "manifest.json").exists()
    again = finished(client, post(client, query, "undo", action_id=done["id"], reason="wrong query"))
    assert (again["state"], again["action"]) == ("succeeded", "undo")
    assert content(root / "rewound") == before
    with server.plane.reading() as conn:
        recorded = {row["action"] for row in audit.read(conn, 50) if row["target"] == query.query_id}
    assert recorded == {"query.rewind", "query.rewind.end", "query.undo", "query.undo.end"}


def test_an_undo_is_refused_once_the_query_has_run(
    server: LiveServer, client: httpx.Client, root: Path
) -> None:
    _, query = stopped(server, root / "ran")
    done = finished(client, post(client, query, "rewind", resume_at=2))
    write(root / "ran", query.query_id, committed=2, offset=7)
    refused = finished(client, post(client, query, "undo", action_id=done["id"]))
    assert (refused["state"], refused["evidence"]["code"]) == ("failed", "not_possible")
    assert "has changed since the repair" in refused["reason"]


def test_a_running_query_keeps_its_checkpoint(server: LiveServer, client: httpx.Client, root: Path) -> None:
    _, query = running(server, root / "runs")
    before = content(root / "runs")
    preview = client.get(f"/api/v1/checkpoints/{query.query_id}/rewind").json()
    assert preview["refusal"] == {"code": "still_running", "reason": "the query is running; stop it first"}
    refused = post(client, query, "rewind", resume_at=2)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "still_running")
    assert content(root / "runs") == before


def test_a_query_that_starts_during_the_check_keeps_its_checkpoint(
    server: LiveServer, client: httpx.Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, query = stopped(server, root / "races")
    before = content(root / "races")
    pause_seconds = change._pause_seconds

    def started_meanwhile(found: Any) -> float:
        query.run_id = str(uuid.uuid4())
        agent.start(query)
        return pause_seconds(found)

    monkeypatch.setattr(change, "_pause_seconds", started_meanwhile)
    refused = finished(client, post(client, query, "rewind", resume_at=2))
    assert (refused["state"], refused["evidence"]["code"]) == ("failed", "in_use")
    assert content(root / "races") == before


def test_another_writer_is_noticed(
    server: LiveServer, client: httpx.Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, query = stopped(server, root / "written")
    monkeypatch.setattr(change, "_pause_seconds", lambda found: time_passes(root / "written/offsets/4"))
    refused = finished(client, post(client, query, "rewind", resume_at=2))
    assert refused["evidence"]["code"] == "in_use"
    assert "offsets/4 appeared" in refused["reason"]


def time_passes(written: Path) -> float:
    written.write_text("v1\n{}")
    return SHORT_SECONDS


def test_no_command_starts_the_query_meanwhile(
    server: LiveServer, client: httpx.Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, query = stopped(server, root / "busy")
    monkeypatch.setattr(change, "_pause_seconds", lambda found: 3.0)
    rewind = post(client, query, "rewind", resume_at=2, key="one")
    start = client.post(f"/api/v1/queries/{query.query_id}/actions", json={"action": "start"})
    assert (start.status_code, start.json()["error"]["code"]) == (409, "action_in_progress")
    second = post(client, query, "rewind", resume_at=1)
    assert (second.status_code, second.json()["error"]["code"]) == (409, "action_in_progress")
    repeated = post(client, query, "rewind", resume_at=2, key="one")
    assert repeated.status_code == 200
    assert repeated.json()["action"]["id"] == rewind.json()["action"]["id"]
    assert finished(client, rewind)["state"] == "succeeded"


def test_a_damaged_checkpoint_is_repaired_once_that_is_confirmed(
    server: LiveServer, client: httpx.Client, root: Path
) -> None:
    _, query = stopped(server, root / "torn")
    write(root / "torn", query.query_id, committed=3, planned=4)
    (root / "torn/offsets/4").write_text("v1\n{")
    path = f"/api/v1/checkpoints/{query.query_id}/repair"
    found = client.get(path).json()
    assert (found["verdict"], found["plan"]) == ("broken", None)
    offer = found["offers"][0]
    assert (offer["id"], offer["needs_confirmation"], offer["selected"]) == ("R-OFF-1", True, False)
    unconfirmed = finished(client, post(client, query, "repair"))
    assert unconfirmed["reason"] == "confirm R-OFF-1 first"
    plan = client.get(path, params={"confirm": "R-OFF-1"}).json()["plan"]
    assert plan["files_removed"] == 1
    done = finished(client, post(client, query, "repair", confirm=["R-OFF-1"]))
    assert (done["state"], done["evidence"]["verdict"]) == ("succeeded", "ok")
    assert not (root / "torn/offsets/4").exists()


def test_a_change_that_breaks_off_locks_the_checkpoint_and_can_be_undone(
    server: LiveServer, client: httpx.Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, query = stopped(server, root / "cut")
    before = content(root / "cut")
    with monkeypatch.context() as broken:
        broken.setattr(execution, "_unlock", full_disk)
        failed = finished(client, post(client, query, "rewind", resume_at=2))
    assert (failed["state"], failed["evidence"]["code"]) == ("failed", "interrupted")
    assert (root / "cut/metadata").read_text().startswith(LOCK)
    refused = client.get(f"/api/v1/checkpoints/{query.query_id}/rewind")
    assert refused.status_code == 409 and "controlplane undo" in refused.json()["error"]["message"]
    undone = finished(client, post(client, query, "undo", action_id=failed["id"]))
    assert undone["state"] == "succeeded"
    assert content(root / "cut") == before


def test_an_undo_of_a_change_that_never_began_is_refused_as_such(
    client: httpx.Client, server: LiveServer, root: Path
) -> None:
    _, query = stopped(server, root / "early")
    before = content(root / "early")
    done = finished(client, post(client, query, "rewind", resume_at=2))
    finished(client, post(client, query, "undo", action_id=done["id"]))
    (Path(done["evidence"]["backup"]) / "manifest.json").unlink()
    again = finished(client, post(client, query, "undo", action_id=done["id"]))
    assert (again["state"], again["evidence"]["code"]) == ("failed", "not_possible")
    assert again["reason"].startswith("there is nothing to restore:")
    assert content(root / "early") == before


def full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_only_actions_of_this_query_with_a_backup_are_undone(
    server: LiveServer, client: httpx.Client, root: Path
) -> None:
    _, query = stopped(server, root / "first")
    _, other = stopped(server, root / "second")
    done = finished(client, post(client, query, "rewind", resume_at=2))
    assert post(client, other, "undo", action_id=done["id"]).status_code == 404
    assert post(client, query, "undo", action_id="none").status_code == 404
    impossible = finished(client, post(client, other, "rewind", resume_at=9))
    assert (impossible["state"], impossible["evidence"]["code"]) == ("failed", "not_possible")
    nothing = post(client, other, "undo", action_id=impossible["id"])
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (409, "nothing_to_undo")


def test_a_backup_outside_of_the_roots_is_not_made(client: httpx.Client, tmp_path: Path) -> None:
    place = tmp_path / "root"
    data = tmp_path / "data"
    with live_server(data, checkpoint_roots=(f"{place}",), checkpoint_changes=True) as live:
        (place / "in").mkdir(parents=True)
        _, query = stopped(live, place / "in")
        with live.client(live.token(Role.OPERATOR)) as operator:
            done = finished(operator, post(operator, query, "rewind", resume_at=2))
    assert done["state"] == "succeeded"  # beside the checkpoint, below the root
    assert Path(done["evidence"]["backup"]).parent == place


def test_a_server_changes_nothing_unless_it_may(root: Path, tmp_path: Path) -> None:
    with live_server(tmp_path, checkpoint_roots=(str(root),)) as live:
        _, query = stopped(live, root / "off")
        with live.client(live.token(Role.OPERATOR)) as operator:
            preview = operator.get(f"/api/v1/checkpoints/{query.query_id}/rewind").json()
            assert preview["refusal"]["code"] == "checkpoint_changes_off"
            refused = post(operator, query, "rewind", resume_at=2)
            assert "--checkpoint-changes" in refused.json()["error"]["message"]
        with live.client(live.token(Role.VIEWER)) as viewer:
            assert post(viewer, query, "rewind", resume_at=2).status_code == 403


def test_a_server_that_stops_makes_no_change_and_ends_the_action_after_its_next_start(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change, "_pause_seconds", lambda found: 60.0)
    settings = {"checkpoint_roots": (str(root),), "checkpoint_changes": True}
    with live_server(tmp_path, **settings) as live:
        _, query = stopped(live, root / "stops")
        before = content(root / "stops")
        with live.client(live.token(Role.OPERATOR)) as operator:
            action = post(operator, query, "rewind", resume_at=2).json()["action"]
        began = time.monotonic()
    assert time.monotonic() - began < 30
    assert content(root / "stops") == before
    with live_server(tmp_path, **settings) as live, live.client(live.token(Role.VIEWER)) as viewer:
        ended = viewer.get(f"/api/v1/actions/{action['id']}").json()["action"]
    assert ended["state"] == "failed"
    assert "nothing was changed" in ended["reason"]
