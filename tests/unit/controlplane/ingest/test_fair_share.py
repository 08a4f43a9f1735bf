"""Shares of ingest by app."""

from __future__ import annotations

import asyncio
import gzip
import threading

import pytest

from controlplane.ingest import fair_share
from controlplane.ingest.fair_share import FairShare, ParsingTurn, app_hint
from tests.drivers import Driver

LINE = Driver(app='a "b" shop').started("q", "r")


def test_one_apps_requests_wait_for_each_other_and_not_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_share, "MAX_REQUESTS", 2)
    shares, entered = FairShare(), []

    async def request(app: str, done: asyncio.Event) -> None:
        async with shares.of(app):
            entered.append(app)
            await done.wait()

    async def story() -> None:
        done = asyncio.Event()
        floods = [asyncio.create_task(request("flood", done)) for _ in range(10)]
        calm = asyncio.create_task(request("calm", done))
        for _ in range(10):
            await asyncio.sleep(0)
        assert entered == ["flood", "flood", "calm"]
        done.set()
        await asyncio.gather(*floods, calm)
        assert len(entered) == 11
        assert shares._shares == {}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("body", "encoding", "hint"),
    [
        (LINE, "", 'a "b" shop'),
        (gzip.compress(LINE * 1000), "gzip", 'a "b" shop'),
        (b"", "", ""),
        (b"junk", "gzip", ""),
        (b'{"app":{"id":1}}', "", ""),
    ],
)
def test_the_app_is_read_from_the_start_of_a_body(body: bytes, encoding: str, hint: str) -> None:
    assert app_hint(body, encoding) == hint


def test_lines_are_parsed_in_turns_which_are_given_up_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_share, "SLICE_SECONDS", 0.0)
    parsing = threading.Lock()
    turn, held = ParsingTurn(parsing, lambda: False), []
    lines = turn.lines([b"1", b"2", b"3"])
    for _ in lines:
        held.append(not turn.is_free and parsing.locked())
    assert held == [True, True, True]
    assert turn.is_free
    lines = turn.lines([b"1", b"2", b"3"])
    next(lines)
    lines.close()  # the request failed
    assert turn.is_free
    assert not parsing.locked()


def test_an_app_pauses_between_its_turns_while_another_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(fair_share, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(fair_share, "RECENT_SECONDS", 1_000.0)
    monkeypatch.setattr("time.sleep", pauses.append)

    async def parsed(shares: FairShare, app: str) -> list[bytes]:
        async with shares.of(app) as turn:
            return list(turn.lines([b"1", b"2", b"3"]))

    async def story() -> None:
        shares = FairShare()
        assert await parsed(shares, "flood") == [b"1", b"2", b"3"]
        assert pauses == []
        await parsed(shares, "calm")
        pauses.clear()
        await parsed(shares, "flood")
        assert len(pauses) == 3

    asyncio.run(story())
