"""`controlplane checkpoints`, `shape` and `--force` against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.checkpoint_files import inventory, write
from tests.acceptance.conftest import Cli
from tests.acceptance.live import eventually
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, restarts


@pytest.fixture
def query(agent: SimulatedAgent) -> SimulatedQuery:
    """A stopped query."""
    made = SimulatedQuery(f"q-{agent.agent[:6]}")
    agent.start(made)
    agent.send(agent.progress(made, stateOperators=[]))
    agent.terminated(made)
    return made


def test_verdicts_findings_and_a_start_in_spite_of_them(
    cli: Cli, agent: SimulatedAgent, query: SimulatedQuery, tmp_path: Path
) -> None:
    name = str(query.name)
    assert "no inventory has arrived yet" in cli("checkpoints", name).out
    agent.send(inventory(query, write(tmp_path, query.query_id, 0), "stopped"))
    assert eventually(lambda: cli("checkpoints", name).out.splitlines()[1].startswith("ok"))
    assert cli("checkpoints", name).code == 0
    (tmp_path / "offsets/0").write_text("")
    agent.send(inventory(query, tmp_path, "stopped"))
    assert eventually(lambda: cli("checkpoints", name).code == 1)
    output = cli("checkpoints", name).out
    assert "error  log.offset-unreadable" in output
    assert "\n  1. " in output
    assert json.loads(cli("checkpoints", "--json").out)["checkpoints"][0]["verdict"] == "broken"
    # From here on the driver answers at once that it takes no inventories: the server does not wait for one.
    agent.serve_commands(restarts(query, lambda driver: driver.send(driver.progress(query))))
    refused = cli("start", name)
    assert refused.code == 1
    assert "refused: the checkpoint is broken" in refused.out
    assert "--force starts the query anyway" in refused.out
    assert cli("start", name, "--force").code == 0
    assert cli("stop", name, "--force").code == 2


def test_the_shape_of_a_query_is_what_preflight_takes(
    cli: Cli, agent: SimulatedAgent, query: SimulatedQuery, tmp_path: Path
) -> None:
    none = cli("shape", str(query.name))
    assert (none.code, none.err.count("\n")) == (2, 1)
    shape = {"v": 1, "spark": "4.3.0", "sources": []}
    agent.send(("status", agent.status(query, facts={"shape": shape})))
    file = tmp_path / "old.json"

    def saved() -> bool:
        result = cli("shape", str(query.name))
        file.write_text(result.out)
        return result.code == 0

    assert eventually(saved)
    assert json.loads(file.read_text()) == shape
    assert "allowed" in cli("preflight", "--old", str(file), "--new", str(file)).out
