"""For whom a token that is bound to an app may speak."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.api.routes.events import may_speak
from controlplane.errors import Forbidden
from controlplane.ingest.service import IngestResult
from controlplane.model import Role, RunEnd
from controlplane.runtime.tokens import Token
from tests.drivers import Driver
from tests.stores import StoreHarness, sqlite_harness

MINE = Token("1", "mine", Role.AGENT, "x", "p", app="mine")
THEIRS = Token("2", "theirs", Role.AGENT, "y", "p", app="theirs")
FREE = Token("3", "any", Role.AGENT, "z", "p")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def post(harness: StoreHarness, token: Token, *lines: bytes) -> IngestResult:
    return harness.ingest.accept(lines, None, lambda event: may_speak(token, event, harness.window))


def test_a_bound_token_may_not_speak_as_another_app_s_agent_and_its_numbers_stay_free(
    harness: StoreHarness,
) -> None:
    owner = Driver(app="theirs")
    post(harness, THEIRS, owner.started("q", "r"))
    thief = Driver(app="mine", agent=owner.agent)
    thief.seq = owner.seq
    with pytest.raises(Forbidden, match="another app"):
        post(harness, MINE, thief.line("heartbeat", {}))
    known = harness.window.agent(owner.agent)
    assert known is not None
    assert known.app == "theirs"
    assert post(harness, THEIRS, owner.progress("q", "r", 0)).stored == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.started("q", "new run", name="hijacked"),
        lambda d: d.terminated("q", "r"),
        lambda d: d.terminated("new query", "r"),  # its run, under another query
        lambda d: d.progress("q", "r", 7),
        lambda d: d.status({"id": "q", "runId": "r", "name": "hijacked"}),
        lambda d: d.line("start_failed", {"id": "q", "name": "x", "exception": "boom"}),
    ],
)
def test_a_bound_token_may_not_speak_of_another_app_s_query(harness: StoreHarness, make: object) -> None:
    owner, thief = Driver(app="theirs"), Driver(app="mine")
    post(harness, THEIRS, owner.started("q", "r"))
    before = harness.window.view("q")
    answer = post(harness, MINE, thief.line("heartbeat", {}), make(thief))  # type: ignore[operator]
    assert (answer.stored, [r["line"] for r in answer.rejected]) == (1, [2])
    assert harness.window.view("q") == before


def test_a_query_that_was_put_away_may_be_taken_up_by_another_app(harness: StoreHarness) -> None:
    post(harness, THEIRS, Driver(app="theirs").started("q", "r"))
    harness.window.retire("q", harness.now)
    assert post(harness, MINE, Driver(app="mine").started("q", "r2")).stored == 1


def test_when_every_line_is_forbidden_the_request_is_and_the_agent_keeps_its_events(
    harness: StoreHarness,
) -> None:
    driver = Driver(app="theirs")
    with pytest.raises(Forbidden, match="bound to the app mine"):
        post(harness, MINE, driver.started("q", "r"), b"rubbish", driver.terminated("q", "r"))
    assert harness.ingest.rejected == 0
    assert post(harness, MINE, b"rubbish").rejected[0]["line"] == 1
    assert post(harness, MINE).stored == 0
    assert harness.window.views() == []


def test_a_token_that_is_bound_to_no_app_may_speak_for_all(harness: StoreHarness) -> None:
    item, two = Driver(app="mine"), Driver(app="theirs")
    assert post(harness, FREE, item.started("q", "r1"), two.terminated("q", "r1")).stored == 2
    view = harness.window.view("q")
    assert view is not None
    assert view.run is not None
    assert view.run.end == RunEnd.STOPPED
