"""Takes request bodies in without trusting them: caps on the wire, inflated, in lines, in time.

A body is read in pieces and refused (413) at the first byte too many; gzip is inflated with a cap of
its own, so a bomb stops there. All bodies in hand share one budget: beyond it the answer is 503, the
memory does not grow.
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Iterator

from fastapi import Request

from controlplane.errors import BadRequest, BodyTooLarge, StoreUnavailable

BODY_SECONDS = 30.0
JSON_BYTES = 256 * 1024
MAX_LINES = 100_000
PIECE = 64 * 1024
STEP = 1024 * 1024


class BodyBudget:
    """Bytes that bodies may hold together."""

    def __init__(self, limit: int):
        self._limit = limit
        self._lock = threading.Lock()
        self.held = 0

    def take(self, count: int) -> None:
        with self._lock:
            if self.held + count > self._limit:
                raise StoreUnavailable(
                    "the server holds too many large bodies; send it again", code="overloaded"
                )
            self.held += count

    def give(self, count: int) -> None:
        with self._lock:
            self.held -= count


class Claim:
    """What one request holds of the budget; given back at the end of the `with`."""

    def __init__(self, budget: BodyBudget):
        self._budget = budget
        self._held = 0

    def take(self, count: int) -> None:
        self._budget.take(count)
        self._held += count

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.give(self._held)
        self._held = 0


async def read_body(request: Request, limit: int, claim: Claim | None = None) -> bytes:
    """The whole body as sent, of at most `limit` bytes and within `BODY_SECONDS`."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _collect(request, limit, claim)
    except TimeoutError:
        raise BadRequest(
            f"the body did not arrive within {BODY_SECONDS:.0f} s", code="body_too_slow"
        ) from None


async def _collect(request: Request, limit: int, claim: Claim | None) -> bytes:
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        if claim is not None:
            claim.take(len(piece))
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(limit: int, what: str = "the body") -> BodyTooLarge:
    return BodyTooLarge(f"{what} is over {limit:,} bytes; split it", detail={"limit_bytes": limit})


def decode(body: bytes, encoding: str, limit: int, claim: Claim) -> bytes:
    """The body without its Content-Encoding: gzip, or none."""
    word = encoding.strip().lower()
    if word in ("", "identity"):
        return body
    if word not in ("gzip", "x-gzip"):
        raise BadRequest(
            f"Content-Encoding must be gzip or none, not {word[:40]!r}", code="unsupported_encoding"
        )
    return inflate(body, limit, claim)


def inflate(body: bytes, limit: int, claim: Claim) -> bytes:
    """gzip of one or more members → bytes, at most `limit` of them; BadRequest where it is broken."""
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in _inflated(body):
            size += len(piece)
            if size > limit:
                raise _too_large(limit, "the inflated body")
            claim.take(len(piece))
            pieces.append(piece)
    except zlib.error as error:
        raise BadRequest(f"the body is not gzip: {error}", code="bad_gzip") from None
    except EOFError:
        raise BadRequest("the gzip body is cut short", code="bad_gzip") from None
    return b"".join(pieces)


def _inflated(body: bytes) -> Iterator[bytes]:
    """Pieces of at most `STEP` bytes, fed by `PIECE` so that the tail copied each time stays small."""
    start = 0
    while start < len(body):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            if start >= len(body) and not member.unconsumed_tail:
                raise EOFError
            piece = body[start : start + PIECE] if not member.unconsumed_tail else b""
            start += len(piece)
            yield member.decompress(member.unconsumed_tail + piece, STEP)
        start -= len(member.unused_data)


def lines_of(text: bytes) -> Iterator[bytes]:
    """The lines without their ends, one at a time; BodyTooLarge where there are too many."""
    if text.count(b"\n") >= MAX_LINES:
        raise BodyTooLarge(
            f"the body has over {MAX_LINES:,} lines; split it", detail={"limit_lines": MAX_LINES}
        )
    return _lines(text)


def _lines(text: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end].removesuffix(b"\r")
        start = end + 1
