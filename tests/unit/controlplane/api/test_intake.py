"""Bodies that lie about their size, break off, or explode."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from controlplane.api import intake
from controlplane.errors import BadRequest, BodyTooLarge, StoreUnavailable

MIB = 1024 * 1024


def claim(limit: int = 256 * MIB) -> intake.Claim:
    return intake.Claim(intake.BodyBudget(limit))


def request_of(pieces: list[bytes], headers: dict[str, str] | None = None, pause: float = 0.0) -> Request:
    async def messages() -> AsyncIterator[dict[str, Any]]:
        for piece in pieces:
            if pause:
                await asyncio.sleep(pause)
            yield {"type": "http.request", "body": piece, "more_body": True}
        yield {"type": "http.request", "body": b"", "more_body": False}

    stream = messages()
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]

    async def receive() -> Any:
        return await anext(stream)

    return Request({"type": "http", "headers": raw}, receive)


def test_a_body_arrives_whole() -> None:
    assert asyncio.run(intake.read_body(request_of([b"ab", b"c"]), 10)) == b"abc"


def test_an_announced_giant_is_refused_before_a_byte_is_read() -> None:
    request = request_of([], {"content-length": "99999999999999999999999999"})
    with pytest.raises(BodyTooLarge):
        asyncio.run(intake.read_body(request, 10))


def test_a_body_that_lies_about_its_length_is_cut_at_the_cap() -> None:
    request = request_of([b"x" * 8] * 4, {"content-length": "3"})
    with pytest.raises(BodyTooLarge):
        asyncio.run(intake.read_body(request, 20))


def test_a_body_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.05)
    with pytest.raises(BadRequest, match="did not arrive"):
        asyncio.run(intake.read_body(request_of([b"x"] * 100, pause=0.02), 1000))


def test_bodies_share_one_budget_and_give_it_back() -> None:
    budget = intake.BodyBudget(10)
    with intake.Claim(budget) as item, intake.Claim(budget) as two:
        item.take(8)
        with pytest.raises(StoreUnavailable):
            two.take(3)
        assert budget.held == 8
    assert budget.held == 0


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=4))
def test_gzip_of_several_members_is_inflated(parts: list[bytes]) -> None:
    body = b"".join(gzip.compress(part) for part in parts)
    assert intake.inflate(body, 10 * MIB, claim()) == b"".join(parts)


def test_large_gzip_passes_through_in_pieces() -> None:
    text = bytes(range(256)) * 20_000
    assert intake.inflate(gzip.compress(text, 1), 10 * MIB, claim()) == text


def test_a_gzip_bomb_stops_at_the_cap_without_the_memory() -> None:
    bomb = gzip.compress(b"\0" * (200 * MIB), 1)
    tracemalloc.start()
    with pytest.raises(BodyTooLarge):
        intake.inflate(bomb, 8 * MIB, claim())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * MIB


def test_a_body_of_many_empty_members_is_refused_without_reading_them_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened, real = [], zlib.decompressobj
    monkeypatch.setattr(intake.zlib, "decompressobj", lambda **options: opened.append(1) or real(**options))
    with pytest.raises(BadRequest, match="members"):
        intake.inflate(gzip.compress(b"", mtime=0) * 50_000, 8 * MIB, claim())
    assert len(opened) == intake.MAX_MEMBERS


def test_a_body_that_grows_beyond_reason_is_refused_below_the_limit_of_sizes() -> None:
    bomb = gzip.compress(b"\0" * (8 * MIB), 9)
    with pytest.raises(BodyTooLarge):
        intake.inflate(bomb, 64 * MIB, claim())


def test_inflated_bytes_count_against_the_budget() -> None:
    with pytest.raises(StoreUnavailable):
        intake.inflate(gzip.compress(b"x" * MIB), 8 * MIB, claim(limit=1000))


@pytest.mark.parametrize(
    "body",
    [
        b"not gzip",
        gzip.compress(b"x" * 1000, mtime=0)[:-9],
        b"\x1f\x8b",
        gzip.compress(b"x", mtime=0) + b"junk",
    ],
)
def test_broken_gzip_is_the_senders_mistake(body: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        intake.inflate(body, MIB, claim())
    assert caught.value.code == "bad_gzip"


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail_in_another_way(body: bytes) -> None:
    try:
        intake.inflate(body, MIB, claim())
    except BadRequest:
        pass


@pytest.mark.parametrize("encoding", ["", "identity", "Identity "])
def test_a_plain_body_needs_no_inflating(encoding: str) -> None:
    assert intake.decode(b"abc", encoding, MIB, claim()) == b"abc"


def test_another_encoding_is_named() -> None:
    with pytest.raises(BadRequest, match="br"):
        intake.decode(b"", "br", MIB, claim())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nb\n\nc", [b"a", b"b", b"", b"c"]),
    ],
)
def test_lines_keep_their_numbers(text: bytes, expected: list[bytes]) -> None:
    assert list(intake.lines_of(text)) == expected


def test_too_many_lines_are_refused_at_once() -> None:
    with pytest.raises(BodyTooLarge, match="lines"):
        intake.lines_of(b"\n" * intake.MAX_LINES)
