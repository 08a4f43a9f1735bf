"""Shares of ingest by app, so that the requests of one app do not hold the threads and the interpreter of all.

An app may have some requests in progress at a time; others of it wait before they are parsed. Of these, one parses at a
time. Called by `controlplane.api` for each batch of events.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

#: Requests of one app in progress at a time.
MAX_REQUESTS = 20
#: Of them, those that may decompress and parse in a thread, where one parses and another decompresses.
MAX_THREADS = 2
#: CPU time for which a request parses before another may.
SLICE_SECONDS = 0.005
#: Of the time, for one app while others have sent within RECENT_SECONDS.
SHARE, RECENT_SECONDS = 0.25, 2.0
HINT_BYTES = 4096
_APP = re.compile(rb'"app"\s*:\s*\{[^{}]*?"name"\s*:\s*("(?:[^"\\]|\\.){1,256}")')


class ParsingTurn:
    """Lets one request of an app parse at a time, and one of all apps.

    While other apps send too, an app parses no more than SHARE of the time.
    """

    def __init__(self, parsing: threading.Lock, others_send: Callable[[], bool]) -> None:
        self._lock, self._parsing, self._others_send = threading.Lock(), parsing, others_send
        #: For requests that are parsed in a thread.
        self.threads = asyncio.Semaphore(MAX_THREADS)

    @property
    def is_free(self) -> bool:
        """Whether no request of the app parses now."""
        return not self._lock.locked()

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines; the consumer has its turn while it works on them, and gives it up now and then."""
        waiting = iter(lines)
        for first in waiting:
            with self._lock:
                with self._parsing:
                    began = time.thread_time()
                    yield first
                    while (
                        time.thread_time() - began < SLICE_SECONDS
                        and (line := next(waiting, None)) is not None
                    ):
                        yield line
                    worked = time.thread_time() - began
                if worked >= SLICE_SECONDS and self._others_send():
                    time.sleep(worked * (1 / SHARE - 1))


@dataclass
class _Share:
    """What an app's requests have in common while there are any."""

    turn: ParsingTurn
    requests: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_REQUESTS))
    users: int = 0


class FairShare:
    """The shares of all apps. Used on one event loop."""

    def __init__(self) -> None:
        self._shares: dict[object, _Share] = {}
        self._parsing = threading.Lock()
        self._newest: list[tuple[object, float]] = []  # the last two apps and when they sent

    @asynccontextmanager
    async def of(self, app: object) -> AsyncIterator[ParsingTurn]:
        """Wait until the app has fewer requests in progress; yields what its requests take to parse."""
        self._newest = [(app, time.monotonic()), *(item for item in self._newest if item[0] != app)][:2]
        share = self._shares.get(app)
        if share is None:
            turn = ParsingTurn(self._parsing, lambda: self._others_send(app))
            share = self._shares[app] = _Share(turn)
        share.users += 1
        try:
            async with share.requests:
                yield share.turn
        finally:
            share.users -= 1
            if share.users == 0:
                del self._shares[app]

    def _others_send(self, app: object) -> bool:
        """Whether another app has sent lately. Called from any thread."""
        begin = time.monotonic() - RECENT_SECONDS
        return any(other != app and at > begin for other, at in self._newest)


def app_hint(body: bytes, encoding: str) -> str:
    """The app in the first line of a body; empty where it is not found. A wrong one only costs its sender its share."""
    start = body[:HINT_BYTES]
    if encoding.strip().lower() in ("gzip", "x-gzip"):
        try:
            start = zlib.decompressobj(wbits=31).decompress(start, HINT_BYTES)
        except zlib.error:
            return ""
    found = _APP.search(start)
    try:
        return str(json.loads(found[1])) if found else ""
    except ValueError:
        return ""
