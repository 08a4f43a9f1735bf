"""Reading of request bodies with limits on size, decompressed size, lines and time.

A body is read in pieces and rejected (413) at the first byte over the limit. gzip is decompressed with a limit of its
own, which stops a decompression bomb. All bodies in memory share a budget; beyond it the answer is 503.
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
PIECE_BYTES = 64 * 1024
OUTPUT_BYTES = 1024 * 1024
#: Members of a gzip body, of which an agent sends one: each costs time even when it is empty.
MAX_MEMBERS = 1_000
#: A body may decompress to so many times its size; repetitive events reach a tenth of it.
MAX_RATIO = 300


class BodyBudget:
    """Limit of the bytes that all request bodies in memory may take together. Thread-safe."""

    def __init__(self, limit: int):
        self._limit = limit
        self._lock = threading.Lock()
        self.held = 0

    def take(self, count: int) -> None:
        """Reserve bytes; StoreUnavailable (503) if the budget is exhausted."""
        with self._lock:
            if self.held + count > self._limit:
                raise StoreUnavailable(
                    "too many large bodies are being read; send the request again", code="overloaded"
                )
            self.held += count

    def give(self, count: int) -> None:
        """Return reserved bytes."""
        with self._lock:
            self.held -= count


class Claim:
    """The share of the budget that a request holds; a context manager that returns it."""

    def __init__(self, budget: BodyBudget):
        self._budget = budget
        self._held = 0

    def take(self, count: int) -> None:
        """Reserve more bytes for this request."""
        self._budget.take(count)
        self._held += count

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.give(self._held)
        self._held = 0


async def read_body(request: Request, limit: int, claim: Claim | None = None) -> bytes:
    """The body as sent. BodyTooLarge over `limit` bytes, BadRequest if it takes longer than `BODY_SECONDS`."""
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
    """The body without its Content-Encoding, gzip or none; BadRequest for another encoding."""
    word = encoding.strip().lower()
    if word in ("", "identity"):
        return body
    if word not in ("gzip", "x-gzip"):
        raise BadRequest(
            f"Content-Encoding must be gzip or none, not {word[:40]!r}", code="unsupported_encoding"
        )
    return inflate(body, limit, claim)


def inflate(body: bytes, limit: int, claim: Claim) -> bytes:
    """Decompress gzip of one or more members to at most `limit` bytes; BadRequest for damaged gzip.

    BodyTooLarge also for more than MAX_RATIO times the body's size.
    """
    limit = min(limit, max(OUTPUT_BYTES, MAX_RATIO * len(body)))
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in _inflated(body):
            size += len(piece)
            if size > limit:
                raise _too_large(limit, "the decompressed body")
            claim.take(len(piece))
            pieces.append(piece)
    except zlib.error as error:
        raise BadRequest(f"the body is not gzip: {error}", code="bad_gzip") from None
    except EOFError:
        raise BadRequest("the gzip body is truncated", code="bad_gzip") from None
    return b"".join(pieces)


def _inflated(body: bytes) -> Iterator[bytes]:
    """Yield pieces of at most `OUTPUT_BYTES`; the input is fed by `PIECE_BYTES` so that little is copied each time."""
    start = members = 0
    while start < len(body):
        members += 1
        if members > MAX_MEMBERS:
            raise zlib.error(f"it has more than {MAX_MEMBERS} members")
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            if start >= len(body) and not member.unconsumed_tail:
                raise EOFError
            piece = body[start : start + PIECE_BYTES] if not member.unconsumed_tail else b""
            start += len(piece)
            yield member.decompress(member.unconsumed_tail + piece, OUTPUT_BYTES)
        start -= len(member.unused_data)


def lines_of(text: bytes) -> Iterator[bytes]:
    """Yield the lines without their line ends; BodyTooLarge over `MAX_LINES` lines."""
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
