"""For whom a token that is bound to an app may speak."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from controlplane.api.deps import EncodedBody
from controlplane.api.intake import BodyBudget, Claim
from controlplane.api.routes.events import _Batch, may_speak, sender_check
from controlplane.errors import Forbidden
from controlplane.ingest.fair_share import ParsingTurn
from controlplane.ingest.service import IngestResult
from controlplane.model import Role, RunEnd
from controlplane.runtime.tokens import Token
from controlplane.settings import Settings
from tests.drivers import Driver
from tests.stores import StoreHarness, sqlite_harness

MINE = Token("1", "mine", Role.AGENT, "x", "p", app="mine")
THEIRS = Token("2", "theirs", Role.AGENT, "y", "p", app="theirs")
FREE = Token("3", "any", Role.AGENT, "z", "p")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def test_a_small_request_of_a_fleet_is_parsed_while_a_thread_has_the_turn(harness: StoreHarness) -> None:
    """The event loop would wait for the thread, and all other requests for the event loop."""
    parsing = threading.Lock()
    turn, plane = ParsingTurn(parsing, lambda: True), SimpleNamespace(**vars(harness), settings=Settings())
    body = EncodedBody(Driver().line("heartbeat", {}), "", Claim(BodyBudget(10**6)))
    batch, received = _Batch(plane, FREE, body, turn, None), []  # type: ignore[arg-type]
    with parsing:
        thread = threading.Thread(target=lambda: received.append(asyncio.run(batch.received())), daemon=True)
        thread.start()
        thread.join(60)
    assert [harness.ingest.answer(receipt).stored for receipt in received] == [1]


def post(harness: StoreHarness, token: Token, *lines: bytes) -> IngestResult:
    receipt = harness.ingest.receive(lines, None, lambda event: may_speak(token, event, harness.window))
    return harness.ingest.answer(receipt)


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


THEIR_QUERY, THEIR_RUN = str(uuid.UUID(int=0xABC)), str(uuid.UUID(int=0xDEF))


def post_checked(harness: StoreHarness, token: Token, *lines: bytes) -> IngestResult:
    receipt = harness.ingest.receive(lines, None, sender_check(token, harness.window))
    return harness.ingest.answer(receipt)


@pytest.mark.parametrize("write", [str.upper, "{{{}}}".format, "urn:uuid:{}".format])
def test_another_notation_of_an_id_is_the_same_query(harness: StoreHarness, write: object) -> None:
    """A token of one app must not make a row whose buttons act on another app's query."""
    owner, thief = Driver(app="theirs"), Driver(app="mine")
    post_checked(harness, THEIRS, owner.started(THEIR_QUERY, THEIR_RUN))
    ids = write(THEIR_QUERY), str(uuid.uuid4())  # type: ignore[operator]
    taken = thief.started(*ids), thief.status({"id": ids[0], "runId": ids[1]})
    answer = post_checked(harness, MINE, thief.line("heartbeat", {}), *taken)
    assert (answer.stored, [line["line"] for line in answer.rejected]) == (1, [2, 3])
    assert post_checked(harness, THEIRS, owner.progress(ids[0], THEIR_RUN.upper(), 0)).stored == 1
    views = harness.window.views()
    assert [(view.query_id, view.app, len(view.progress)) for view in views] == [(THEIR_QUERY, "theirs", 1)]


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.started("orders", THEIR_RUN),
        lambda d: d.started(THEIR_QUERY[:-1] + "\N{FULLWIDTH DIGIT ONE}", THEIR_RUN),
        lambda d: d.started(THEIR_QUERY, THEIR_RUN.replace("-", "")[:-2] + "_1"),
        lambda d: d.progress(THEIR_QUERY, "r", 0),
        lambda d: d.status({"id": "<script>", "runId": THEIR_RUN}),
        lambda d: d.line("start_failed", {"id": "x", "exception": "boom"}),
        lambda d: d.line("inventory", {"id": "../../etc", "inventory": {}}),
    ],
)
def test_an_id_that_is_no_uuid_is_refused(harness: StoreHarness, make: object) -> None:
    answer = post_checked(harness, FREE, make(Driver()))  # type: ignore[operator]
    assert answer.stored == 0
    assert "must be a UUID" in answer.rejected[0]["error"]
    assert harness.window.views() == []
