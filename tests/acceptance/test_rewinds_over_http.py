"""The preview of a rewind over HTTP, of checkpoints that the server reads itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.model import Role
from tests.acceptance.checkpoint_files import write
from tests.acceptance.live import LiveServer, live_server
from tests.acceptance.simulated import SimulatedQuery

Json = dict[str, Any]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("data"), checkpoint_roots=(str(root),)) as live:
        yield live


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client(server.token(Role.OPERATOR)) as operator:
        yield operator


def started(server: LiveServer, checkpoint: Path | str, **report: Any) -> SimulatedQuery:
    """A query on this checkpoint that has reported batches 0 to 3, of 100 rows each."""
    agent, query = server.agent(), SimulatedQuery("orders")
    agent.begin()
    agent.start(query)
    agent.send(("status", agent.status(query, facts={"checkpoint": str(checkpoint)})))
    agent.send(*(agent.progress(query, stateOperators=[], **report) for _ in range(4)))
    agent.close()
    return query


def rewind(client: httpx.Client, query: SimulatedQuery, resume_at: object = None) -> httpx.Response:
    params = {} if resume_at is None else {"resume_at": str(resume_at)}
    return client.get(f"/api/v1/checkpoints/{query.query_id}/rewind", params=params)


def test_the_batches_are_listed_with_rows_and_times_as_the_command_finds_them(
    server: LiveServer, client: httpx.Client, root: Path
) -> None:
    query = started(server, root / "listed")
    write(root / "listed", query.query_id, committed=3)
    (root / "listed/offsets/0").unlink()
    found = rewind(client, query).json()
    assert found["next_batch"] == 4
    possible = {item["batch"]: item["possible"] for item in found["batches"]}
    assert possible == {3: True, 2: False, 1: False, 0: True}
    newest, purged = found["batches"][0], found["batches"][1]
    assert newest["input_rows"] == 100 and newest["committed_at"]
    assert "offsets/0 does not exist" in purged["reason"]
    command = [sys.executable, "-m", *found["command"].split(), "--json"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert httpx.Response(200, text=printed).json()["batches"] == [
        {"resume_at": item["batch"], "possible": item["possible"], "reason": item["reason"]}
        for item in found["batches"]
    ]


def test_the_plan_counts_the_rows_that_are_read_again_and_changes_nothing(
    server: LiveServer, client: httpx.Client, root: Path
) -> None:
    query = started(server, root / "planned")
    write(root / "planned", query.query_id, committed=3)
    before = sorted(path.name for path in (root / "planned").rglob("*"))
    found = rewind(client, query, 2).json()
    plan = found["plan"]
    assert (plan["resume_at"], plan["rows_again"], found["batches"]) == (2, 200, [])
    assert plan["title"] == "batch 2 runs next, instead of batch 4"
    assert plan["files_removed"] == 4 and plan["files_written"] == 0
    assert any("batches 2 to 3 are forgotten" in text for text in plan["consequences"])
    assert found["command"] == f"controlplane rewind {root}/planned --resume-at 2"
    assert sorted(path.name for path in (root / "planned").rglob("*")) == before


def test_only_what_the_query_writes_to_has_consequences(
    server: LiveServer, client: httpx.Client, root: Path
) -> None:
    query = started(server, root / "function", sink={"description": "ForeachBatchSink"})
    write(root / "function", query.query_id, committed=3)
    consequences = "\n".join(rewind(client, query, 2).json()["plan"]["consequences"])
    assert "must be idempotent" in consequences
    assert "--output" not in consequences and "Delta" not in consequences


def test_rows_are_unknown_where_a_batch_has_no_report(
    server: LiveServer, client: httpx.Client, root: Path
) -> None:
    query = started(server, root / "unreported")
    write(root / "unreported", query.query_id, committed=5)
    assert rewind(client, query, 4).json()["plan"]["rows_again"] is None


def test_a_file_sinks_output_belongs_to_the_plan_and_must_be_readable(
    server: LiveServer, client: httpx.Client, root: Path
) -> None:
    (root / "out").mkdir()
    inside = started(server, root / "files", sink={"description": f"FileSink[{root}/out]"})
    write(root / "files", inside.query_id, committed=3)
    found = rewind(client, inside, 2).json()
    assert found["output"] == f"{root}/out"
    assert found["command"].startswith(f"controlplane rewind --output {root}/out ")
    outside = started(server, root / "elsewhere", sink={"description": "FileSink[/srv/out]"})
    write(root / "elsewhere", outside.query_id, committed=3)
    refused = rewind(client, outside, 2)
    assert refused.status_code == 409
    assert "not below a checkpoint root of the server (/srv/out)" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("resume_at", "status", "message"),
    [(9, 409, "a rewind only goes back"), (4, 409, "already runs next"), (-1, 422, ""), ("x", 422, "")],
)
def test_an_impossible_batch_is_refused_in_a_sentence(
    server: LiveServer, client: httpx.Client, root: Path, resume_at: object, status: int, message: str
) -> None:
    query = started(server, root / f"refused{resume_at}")
    write(root / f"refused{resume_at}", query.query_id, committed=3)
    refused = rewind(client, query, resume_at)
    assert refused.status_code == status
    assert message in refused.json()["error"]["message"]


def test_only_checkpoints_below_the_roots_are_read_and_links_are_not_followed(
    server: LiveServer, client: httpx.Client, root: Path, tmp_path: Path
) -> None:
    (root / "link").symlink_to(write(tmp_path / "secret", "q", committed=3))
    for place in (tmp_path / "secret", root / "link", f"{root}/../{tmp_path.name}/secret", root / "gone"):
        refused = rewind(client, started(server, place))
        assert refused.status_code == 409, place
    with server.client(server.token(Role.VIEWER)) as viewer:
        assert rewind(viewer, started(server, root / "gone")).status_code == 403
