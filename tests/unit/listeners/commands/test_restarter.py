"""The driver's own restarts: a failed query comes back by the start command, and both steps are reported."""

from __future__ import annotations

import json
import queue
from types import SimpleNamespace
from typing import Any

from listeners.commands.restarter import Restarter
from listeners.protocol import wire

GRANT = {
    "policy": "p",
    "mode": "act",
    "left": 5,
    "initial": 0.001,
    "factor": 1.0,
    "longest": 0.001,
    "jitter": 0.0,
}
RETRY = {"names": {"connection": "now"}, "patterns": [["refused", "connection"]]}
LEASE = wire.Command("l1", "lease", "q", overrides={"seconds": 900, "queries": {"q": GRANT}, "retry": RETRY})
NONE = wire.Command("l2", "lease", "none", overrides={"seconds": 900, "queries": {}})


class Driver:
    """A registry of one query, whose run is over; `reports` has the events, `commands` what was executed."""

    def __init__(self) -> None:
        self.run = SimpleNamespace(is_over=lambda: True)
        self.query = SimpleNamespace(
            run_id="r1",
            runs=["r1"],
            held=False,
            failed_on_probation=None,
            is_active=lambda: False,
            run=self.run,
        )
        self.reports: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.commands: queue.Queue[wire.Command] = queue.Queue()
        registry = SimpleNamespace(entry=lambda query_id: self.query)
        self.restarter = Restarter(registry, self.execute, lambda t, d: self.reports.put((t, json.loads(d))))  # type: ignore[arg-type]

    def execute(self, command: wire.Command) -> wire.CommandResult:
        self.commands.put(command)
        self.query.run_id = "r2"
        return wire.CommandResult("succeeded", evidence={"run_id": "r2"})

    def fail(self, run_id: str, text: str | None) -> None:
        self.restarter.on_terminated(json.dumps({"id": "q", "runId": run_id, "exception": text}))


def test_a_failed_query_is_started_and_both_steps_are_reported() -> None:
    driver = Driver()
    driver.fail("r1", "Connection refused")
    assert driver.restarter.on_command(LEASE).state == "succeeded"
    command = driver.commands.get(timeout=60)
    assert (command.action, command.query_id) == ("start", "q")
    (first, decision), (second, result) = (driver.reports.get(timeout=60) for _ in range(2))
    assert (first, decision["decision"], decision["acted"]) == ("restart_decision", "restart", True)
    assert (decision["runId"], decision["condition"], decision["policy"]) == ("r1", "connection", "p")
    assert (second, result["state"], result["startedRun"]) == ("restart_result", "succeeded", "r2")
    assert result["decisionId"] == decision["decisionId"] == command.id
    driver.restarter.close()


def test_a_run_that_a_command_stopped_or_another_run_replaced_is_left_alone() -> None:
    driver = Driver()
    driver.restarter.on_command(LEASE)
    driver.query.held = True
    driver.fail("r1", "Connection refused")
    driver.query.held, driver.query.run_id, driver.query.runs = False, "r2", ["r1", "r2"]
    driver.fail("r1", "Connection refused")
    driver.fail("r2", None)  # stopped
    driver.fail("r2", "what is this?")
    _, declined = driver.reports.get(timeout=60)
    assert (declined["decision"], declined["runId"], declined["code"]) == ("decline", "r2", "ask")
    assert driver.commands.empty()
    driver.restarter.close()


def test_a_start_is_not_made_after_the_lease_was_withdrawn() -> None:
    driver = Driver()
    over: list[bool] = []

    def is_over() -> bool:
        if not over:  # while the driver waits for the end of the failed run
            driver.restarter.on_command(NONE)
        over.append(True)
        return True

    driver.run.is_over = is_over
    driver.restarter.on_command(LEASE)
    driver.fail("r1", "Connection refused")
    found = [driver.reports.get(timeout=60)[1] for _ in range(2)]
    assert (found[1]["state"], found[1]["code"]) == ("refused", "lease_ended")
    assert driver.commands.empty()
    driver.restarter.close()
    assert driver.restarter.on_command(LEASE).code == "closed"
