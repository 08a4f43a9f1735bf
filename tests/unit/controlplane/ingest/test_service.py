"""Lines in, an answer out: what is stored, what is known already, what is refused and why."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.errors import StoreUnavailable
from controlplane.ingest import deduplication
from controlplane.ingest.lines import MAX_DEPTH, MAX_INVENTORY_BYTES, MAX_LINE_BYTES, deeper_than
from controlplane.store import events, queries, tables
from listeners.protocol import wire
from tests.drivers import BEGIN, Driver, report
from tests.stores import StoreHarness, sqlite_harness

QUERY, RUN = (str(uuid.UUID(int=n)) for n in (1, 2))


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def line_with(driver: Driver, **fields: Any) -> bytes:
    """A started event with these envelope fields replaced."""
    document = json.loads(driver.started("q", "r"))
    return json.dumps(document | fields).encode()


def with_data(driver: Driver, data: bytes, type: str = "progress") -> bytes:
    return driver.line(type, {"X": 1}).replace(b'{"X":1}', data)


BAD_LINES: list[tuple[str, Any, str]] = [
    ("no JSON", lambda d: b"hello", "not JSON"),
    ("half a line", lambda d: d.started("q", "r")[:-5], "not JSON"),
    ("not UTF-8", lambda d: b'{"v":1,"x":"\xff"}', "not UTF-8"),
    ("a list", lambda d: b"[1]", "must be a JSON object"),
    ("another version", lambda d: line_with(d, v=2), "v must be 1"),
    ("no agent", lambda d: line_with(d, agent=None), "agent must be a UUID"),
    ("a huge seq", lambda d: line_with(d, seq=10**30), "seq must be"),
    ("seq of another type", lambda d: line_with(d, seq="1"), "seq must be"),
    ("an absurd time", lambda d: line_with(d, at="12026-01-01T00:00:00Z"), "time"),
    ("a time of another type", lambda d: line_with(d, at=[]), "time"),
    ("no name of the app", lambda d: line_with(d, app={"name": None}), "app.name must be text"),
    ("data of another type", lambda d: line_with(d, data=[]), "data must be a JSON object"),
    ("labels of another type", lambda d: line_with(d, labels={"team": 5}), "label team must be text"),
    ("too many labels", lambda d: line_with(d, labels={f"l{n}": "x" for n in range(11)}), "at most 10"),
    ("no batch", lambda d: d.line("progress", {"id": "q", "runId": "r"}), "data.batchId must be a whole number"),
    ("a batch of another type", lambda d: d.progress("q", "r", "one"), "data.batchId"),  # type: ignore[arg-type]
    ("a run of another type", lambda d: d.line("started", {"id": "q", "runId": 7}), "data.runId must be text"),
    ("a status without a run", lambda d: d.status({"id": "q"}), "data.runId must be text"),
    ("an inventory of nothing", lambda d: d.line("inventory", {"id": "q"}), "data.inventory must be"),
    ("a line of 10 MB", lambda d: d.line("inventory", {"x": "y" * 10_000_000}), "at most 4194304 bytes"),
    ("deep nesting", lambda d: with_data(d, nested(5_000)), "nested"),
    ("nesting just too deep", lambda d: with_data(d, nested(MAX_DEPTH + 1), "inventory"), "nested"),
    ("an endless number", lambda d: with_data(d, b'{"n":' + b"9" * 5000 + b"}", "inventory"), "number is too long"),
]  # fmt: skip


def test_secrets_of_an_agent_that_does_not_mask_them_are_not_stored(harness: StoreHarness) -> None:
    driver, description = Driver(), "JDBC[jdbc:postgresql://u:hunter2@db/shop?password=hunter2&ssl=true]"
    source = {"description": description, "startOffset": 0, "endOffset": 10, "numInputRows": 10}
    sink = {"description": "Sink", "options": {"fs.azure.account.key.acme": "hunter2"}}
    harness.accept(driver.progress(QUERY, RUN, 0, sources=[source], sink=sink))
    stored = json.dumps(harness.read(queries.latest_progress, QUERY))
    view = harness.window.view(QUERY)
    assert view is not None
    assert "hunter2" not in stored
    assert "fs.azure.account.key.acme" in stored
    assert view.progress[0].sources[0].description.startswith("JDBC[jdbc:postgresql://db/shop?password=")


@pytest.mark.parametrize(
    ("make", "error"), [case[1:] for case in BAD_LINES], ids=[case[0] for case in BAD_LINES]
)
def test_a_bad_line_is_refused_by_number_and_its_neighbours_are_stored(
    harness: StoreHarness, make: Any, error: str
) -> None:
    driver = Driver()
    answer = harness.accept(driver.started("q1", "r1"), make(driver), driver.started("q2", "r2"))
    assert answer.stored == 2
    assert [refused["line"] for refused in answer.rejected] == [2]
    assert error in answer.rejected[0]["error"]
    assert answer.acknowledged == driver.seq


GOOD_LINES: list[tuple[str, Any]] = [
    ("a query without a name", lambda d: d.started("q", "r", name=None)),
    ("a type from a newer agent", lambda d: d.line("weather", {"sun": True})),
    ("an inventory", lambda d: d.line("inventory", {"id": "q", "inventory": {"root": "/c", "files": [1, 2]}})),
    ("NaN as older Sparks write it", lambda d: d.progress("q", "r", 1).replace(b":5.0", b":NaN")),
    ("a number beyond a double", lambda d: d.progress("q", "r", 1).replace(b":5.0", b":1e999")),
    ("huge counts", lambda d: d.progress("q", "r", 1, numInputRows=10**300)),
    ("half a surrogate pair", lambda d: with_data(d, b'{"id":"q","runId":"r","name":"a\\ud800"}', "started")),
    ("a whole surrogate pair", lambda d: with_data(d, b'{"id":"q","runId":"r","name":"\\ud83d\\ude00"}', "started")),
    ("NUL", lambda d: with_data(d, b'{"id":"q","runId":"r","name":"a\\u0000b"}', "started")),
    ("emoji", lambda d: d.started("q", "r", name="déjà 😀")),
    ("a name of a thousand letters", lambda d: d.started("q", "r", name="x" * 1000)),
    ("markup", lambda d: d.started("q", "r", name="<img src=x onerror=alert(1)>")),
    ("a status without queries", lambda d: d.line("status", {"queries": "none"})),
    ("a long exception", lambda d: d.terminated("q", "r", exception="at x\n" * 50_000)),
    ("a heartbeat of nonsense", lambda d: d.line("heartbeat", {"dropped": [1], "actions": 7, "uptime": None})),
    ("nesting as deep as we take it", lambda d: with_data(d, nested(MAX_DEPTH), "weather")),
    ("spaces around", lambda d: b"  " + d.started("q", "r") + b" \r"),
]  # fmt: skip


@pytest.mark.parametrize("make", [case[1] for case in GOOD_LINES], ids=[case[0] for case in GOOD_LINES])
def test_what_is_odd_but_sound_is_stored_and_can_be_read_again(harness: StoreHarness, make: Any) -> None:
    answer = harness.accept(make(Driver()))
    assert (answer.stored, answer.rejected) == (1, [])
    for view in harness.window.views():
        found, _ = harness.read(events.read_events, view.query_id)
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode("utf-8")
        assert harness.reloaded().view(view.query_id) == view


def test_empty_lines_are_skipped(harness: StoreHarness) -> None:
    driver = Driver()
    answer = harness.accept(b"", driver.started("q", "r"), b"  ", b"x")
    assert (answer.stored, [r["line"] for r in answer.rejected]) == (1, [4])


def test_an_empty_request_is_answered(harness: StoreHarness) -> None:
    assert harness.accept() == harness.accept(b"")


def test_a_line_may_be_as_long_as_the_cap(harness: StoreHarness) -> None:
    driver = Driver()
    line = driver.line("weather", {"x": ""})
    assert harness.accept(line[:-3] + b"y" * (MAX_LINE_BYTES - len(line)) + line[-3:]).stored == 1
    longer = driver.line("weather", {"x": "y" * MAX_LINE_BYTES})
    assert "at most" in harness.accept(longer).rejected[0]["error"]
    inventory = driver.line(
        "inventory", {"id": "q", "inventory": {"contents": {"offsets/1": "y" * MAX_LINE_BYTES}}}
    )
    assert harness.accept(inventory).stored == 1


@pytest.mark.parametrize(("kind", "limit"), [("weather", MAX_LINE_BYTES), ("inventory", MAX_INVENTORY_BYTES)])
def test_the_error_of_a_line_that_is_too_long_names_the_limit_of_its_type(
    harness: StoreHarness, kind: str, limit: int
) -> None:
    line = Driver().line(kind, {"id": "q", "inventory": {"x": "y" * limit}})
    assert harness.accept(line).rejected[0]["error"] == (
        f"a line may have at most {limit} bytes, not {len(line.rstrip())}"
    )


def test_depth_is_counted_in_lists_and_objects() -> None:
    assert not deeper_than({"a": [1, {"b": 2}]}, 3)
    assert deeper_than({"a": [1, {"b": 2}]}, 2)


def test_a_sender_that_may_not_speak_for_an_app_is_refused_line_by_line(harness: StoreHarness) -> None:
    mine, other = Driver(app="mine"), Driver(app="other")
    receipt = harness.ingest.receive(
        [mine.started("q", "r"), other.started("p", "s")],
        None,
        lambda event: None if event.app.name == "mine" else f"this token may not speak for {event.app.name}",
    )
    answer = harness.ingest.answer(receipt)
    assert answer.stored == 1
    assert answer.rejected == [{"line": 2, "error": "this token may not speak for other"}]


def test_a_clock_that_is_off_is_corrected_and_noted(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q", "r", at=harness.now - 3600), sent_at=harness.now - 3600)
    view = harness.window.view("q")
    assert view is not None
    assert view.run is not None
    assert view.agent is not None
    assert (view.run.started_at, view.agent.clock_offset) == (harness.now, 3600.0)


def test_a_driver_whose_clock_is_set_back_is_neither_silent_nor_is_its_new_run_taken_for_an_old_one(
    harness: StoreHarness,
) -> None:
    driver, ahead = Driver(), 3600.0

    def send(line: Callable[[float], bytes]) -> None:
        harness.now += 10
        harness.accept(line(harness.now + ahead), sent_at=harness.now + ahead)

    send(lambda at: driver.started("q", "r1", at=at))
    for n in range(30):
        send(lambda at, n=n: driver.progress("q", "r1", n, at=at))
    ahead = 0.0
    send(lambda at: driver.line("heartbeat", {}, at=at))
    agent = harness.window.agent(driver.agent)
    assert agent is not None
    assert agent.last_seen_at == harness.now
    send(lambda at: driver.terminated("q", "r1", at=at))
    send(lambda at: driver.started("q", "r2", at=at))
    view = harness.window.view("q")
    assert view is not None
    assert view.run is not None
    assert (view.run.run_id, view.run.end) == ("r2", None)


def test_a_heartbeat_from_a_spool_that_was_left_behind_does_not_revive_its_agent(
    harness: StoreHarness,
) -> None:
    dead, died_at = Driver(), harness.now
    harness.accept(dead.started("q", "r", at=died_at - 1), sent_at=died_at)
    harness.now += 3600
    harness.accept(dead.line("heartbeat", {}, at=died_at), sent_at=harness.now)
    agent = harness.window.agent(dead.agent)
    assert agent is not None
    assert agent.last_seen_at == died_at


def test_an_event_from_the_future_was_received_now(harness: StoreHarness) -> None:
    harness.accept(Driver().started("q", "r", at=harness.now + 10**6))
    view = harness.window.view("q")
    assert view is not None
    assert view.first_seen_at == harness.now


def test_the_listeners_receive_what_is_new_once_it_is_stored(harness: StoreHarness) -> None:
    received: list[wire.Event] = []

    def listen(new: list[wire.Event]) -> None:
        assert harness.window.view("q") is not None
        received.extend(new)
        raise RuntimeError("a listener's trouble is its own")

    harness.ingest.listeners.append(listen)
    driver = Driver()
    lines = [driver.started("q", "r"), driver.progress("q", "r", 0)]
    assert harness.accept(*lines).stored == 2
    assert harness.accept(*lines).duplicates == 2
    assert [event.type for event in received] == ["started", "progress"]


@pytest.mark.parametrize("keepable", [True, False])
def test_a_line_that_raises_an_unexpected_error_is_stored_raw_and_its_neighbours_parsed(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch, keepable: bool
) -> None:
    real = deduplication.lifecycle.apply_events

    def brittle(ledger: Any, reported: Any, *times: float) -> None:
        reported = list(reported)
        if any(item.event.type == "weather" and not (item.raw and keepable) for item in reported):
            raise KeyError("unforeseen")
        real(ledger, reported, *times)

    monkeypatch.setattr(deduplication.lifecycle, "apply_events", brittle)
    driver = Driver()
    answer = harness.accept(
        driver.started("q", "r"), driver.line("weather", {}), driver.progress("q", "r", 0)
    )
    assert answer.stored == (3 if keepable else 2)
    assert answer.rejected == ([] if keepable else [{"line": 2, "error": "could not be stored (KeyError)"}])
    assert harness.reloaded().view("q") == harness.window.view("q")


def test_what_many_send_at_once_is_stored_together_and_answered_to_each(harness: StoreHarness) -> None:
    gate = threading.Event()
    harness.writer.submit(lambda connection: gate.wait(5))
    drivers = [Driver() for _ in range(20)]
    answers: dict[int, Any] = {}

    def send(n: int) -> None:
        driver = drivers[n]
        answers[n] = harness.accept(
            driver.started(f"q{n}", f"r{n}"), b"x", driver.progress(f"q{n}", f"r{n}", 0)
        )

    threads = [threading.Thread(target=send, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert {(a.acknowledged, a.stored, len(a.rejected)) for a in answers.values()} == {(2, 2, 1)}
    assert len(harness.window.views()) == 20
    assert harness.ingest.stored == 40


def test_a_request_larger_than_a_chunk_is_stored_whole(harness: StoreHarness) -> None:
    driver = Driver()
    answer = harness.accept(*(driver.line("idle", {"id": "q", "runId": "r"}) for _ in range(2500)))
    assert (answer.acknowledged, answer.stored) == (2500, 2500)


def test_a_closed_store_acknowledges_nothing(harness: StoreHarness) -> None:
    harness.writer.stop()
    with pytest.raises(StoreUnavailable):
        harness.accept(Driver().started("q", "r"))


@pytest.mark.parametrize("kind", [sa.exc.DatabaseError, sa.exc.InternalError, sa.exc.ProgrammingError])
def test_a_database_that_fails_acknowledges_nothing_and_refuses_no_line(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch, kind: type[sa.exc.DBAPIError]
) -> None:
    def fail(*_: Any) -> None:
        raise kind("INSERT", {"data": "x"}, Exception("the database is going away"))

    driver = Driver()
    lines = [driver.started("q", "r"), driver.progress("q", "r", 0)]
    with monkeypatch.context() as broken:
        broken.setattr("controlplane.events.lifecycle.apply_events", fail)
        with pytest.raises(StoreUnavailable, match="going away"):
            harness.accept(*lines)
    assert harness.ingest.rejected == 0
    assert harness.accept(*lines).stored == 2


def test_the_same_run_under_another_query_breaks_nothing(harness: StoreHarness) -> None:
    driver = Driver()
    answer = harness.accept(
        driver.started("q1", "r"), driver.started("q2", "r"), driver.progress("q2", "r", 0)
    )
    assert (answer.stored, answer.rejected) == (3, [])
    assert harness.accept(driver.progress("q2", "r", 1)).stored == 1


def test_the_same_id_for_query_and_run_breaks_nothing(harness: StoreHarness) -> None:
    driver = Driver()
    assert harness.accept(driver.started(driver.agent, driver.agent)).stored == 1
    assert harness.reloaded().views() == harness.window.views()


# -- any order, any repetition ---------------------------------------------------------------------


def story() -> list[bytes]:
    item, two = Driver(), Driver()
    return [
        item.line("app_started", {"actions": "stop"}),
        item.started("q", "r1"),
        *(item.progress("q", "r1", n) for n in range(3)),
        item.terminated("q", "r1", exception="boom"),
        item.started("q", "r2"),
        item.progress("q", "r2", 2),
        two.line(
            "progress", report("q", "r2", 2, BEGIN + 7.5), at=BEGIN + 8
        ),  # the same batch, received by another
        two.line("heartbeat", {"dropped": {"x": 1}}),
        item.line("app_ended", {"reason": "exit"}),
        b"rubbish",
    ]


LINES = story()


def essence(harness: StoreHarness) -> dict[str, Any]:
    """What the store states, without the ids that it gives in the order of arrival."""
    with harness.engine.connect() as connection:
        stored = connection.execute(sa.select(sa.func.count()).select_from(tables.events)).scalar()
        reported = connection.execute(
            sa.select(tables.batches.c.batch_id, tables.batches.c.trigger_at).order_by(
                tables.batches.c.trigger_at
            )
        ).all()
        runs = [
            {k: v for k, v in vars(run).items() if k not in ("key", "agent")}
            for run in queries.list_runs(connection, "q")
        ]
        # A run whose end comes late was thought lost before, and no counter falls.
        totals = {name: n for name, n in harness.window.totals("q").items() if name != "failures|lost"}
        return {"stored": stored, "batches": [tuple(row) for row in reported], "runs": runs, "totals": totals}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with sqlite_harness(tmp_path_factory.mktemp("expected")) as harness:
        harness.accept(*LINES)
        return essence(harness)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(LINES), st.lists(st.sampled_from(LINES), max_size=8), st.integers(0, len(LINES)))
def test_shuffled_and_repeated_batches_give_the_same_store(
    tmp_path_factory: pytest.TempPathFactory,
    expected: dict[str, Any],
    lines: list[bytes],
    again: list[bytes],
    cut: int,
) -> None:
    with sqlite_harness(tmp_path_factory.mktemp("shuffled")) as harness:
        for batch in (lines[:cut], lines[cut:] + again, again):
            harness.accept(*batch)
        assert essence(harness) == expected
        assert {v.query_id: v for v in harness.reloaded().views()} == {
            v.query_id: v for v in harness.window.views()
        }
