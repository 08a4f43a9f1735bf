"""A window that follows the store equals that of the server that writes to it."""

from __future__ import annotations

import random

import pytest

from controlplane.events.window import Window
from controlplane.failover.follower import changes_between
from controlplane.model import QueryView
from controlplane.store import queries
from controlplane.store.shared import following
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness


def views(window: Window) -> dict[str, QueryView]:
    return {view.query_id: view for view in window.views()}


def follow(harness: StoreHarness, window: Window, position: int) -> int:
    """Apply everything since `position`, in pages of three events; returns the new position."""
    last = harness.read(following.last_event)
    while position < last:
        until = min(last, position + 3)
        window.apply(harness.read(changes_between, position, until))
        position = until
    return position


def history(random_: random.Random) -> list[bytes]:
    """Two drivers with two queries each: runs, reports, polls, failures, a move of a query to the other driver."""
    drivers = [Driver(agent=f"00000000-0000-0000-0000-00000000000{n}") for n in (1, 2)]
    lines: list[bytes] = []
    for batch in range(30):
        driver = random_.choice(drivers)
        query = random_.choice(("q1", "q2"))
        run = f"{query}-{driver.agent[-1]}-{batch // 10}"
        lines += random_.choice(
            (
                [driver.started(query, run)],
                [driver.progress(query, run, batch)],
                [driver.progress(query, run, batch), driver.progress(query, run, batch + 1)],
                [driver.terminated(query, run, exception="boom")],
                [driver.line("heartbeat", {"memory": batch})],
                [driver.line("status", {"queries": [status(query, run)], "listedAt": BEGIN + driver.seq})],
            )
        )
    return lines


def status(query: str, run: str) -> dict[str, object]:
    active = {"message": "Waiting", "isDataAvailable": False, "isTriggerActive": False}
    return {"id": query, "runId": run, "name": "orders", **active}


@pytest.mark.parametrize("seed", range(4))
def test_a_follower_has_the_window_of_the_writer(harness: StoreHarness, seed: int) -> None:
    random_ = random.Random(seed)
    follower, position = Window(clock=lambda: harness.now), 0
    for line in history(random_):
        harness.accept(line)
        if random_.random() < 0.3:
            position = follow(harness, follower, position)
    follow(harness, follower, position)
    harness.read(follower.load_writers)  # as supervision follows the store
    assert views(harness.window)
    assert views(follower) == views(harness.window)
    assert sorted(a.agent for a in follower.agents()) == sorted(a.agent for a in harness.window.agents())


def test_status_changes_are_read_once_each(harness: StoreHarness) -> None:
    harness.accept(Driver().started("q1", "r1"))
    assert harness.read(following.last_status_change) == 0
    for at, name in ((1.0, "starting"), (2.0, "running")):
        change = {"query_id": "q1", "at": at, "status": name, "reason": f"it is {name}"}
        harness.write(queries.record_statuses, [change])
    found = harness.read(following.status_changes_after, 0)
    assert [(row["query_id"], row["at"], row["status"]) for row in found] == [
        ("q1", 1.0, "starting"),
        ("q1", 2.0, "running"),
    ]
    assert harness.read(following.status_changes_after, found[0]["key"]) == found[1:]
    assert harness.read(following.last_status_change) == found[1]["key"]


def test_retired_queries_and_agents_are_known(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q1", "r1"), driver.started("q2", "r2"))
    harness.write(queries.retire, "q2", BEGIN + 5)
    assert harness.read(following.known_queries) == {"q1": None, "q2": BEGIN + 5}
    assert harness.read(following.known_agents) == {driver.agent}
