"""Rendered pages of `GET /metrics`, shared by all clients.

Rendering costs CPU in proportion to the fleet. A page is rendered by one request at a time and served again for ten
times as long as that took, so that clients together cost at most a tenth of a core; while it is rendered again others
get the page before.
"""

from __future__ import annotations

import gzip
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

#: A page that took less is not kept, and none longer than MAX_AGE_SECONDS.
MIN_SECONDS, MAX_AGE_SECONDS = 0.02, 15.0
#: The share of the time that is spent on rendering, as its inverse.
SPARING = 10.0
#: Kinds of pages that are kept: content types and selectors.
MAX_PAGES = 8
#: Renders a page: its parts and its content type.
Render = Callable[[], tuple[Iterable[bytes], str]]
_GZIP_LEVEL = 1  # ten times smaller; the next levels take twice as long for a tenth


@dataclass(frozen=True)
class ExpositionPage:
    """A rendered page, in gzip. `at`: when it was rendered (monotonic seconds); `seconds`: how long that took.

    `fresh_seconds`: how long it is served.
    """

    compressed: bytes
    content_type: str
    at: float
    seconds: float
    fresh_seconds: float

    @property
    def body(self) -> bytes:
        """The page without compression: 76 MB of 10,000 queries, which are therefore not held."""
        return gzip.decompress(self.compressed)


class ExpositionPages:
    """The last pages by kind, each served `sparing` times as long as rendering took. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, sparing: float = SPARING):
        self._clock, self._sparing = clock, sparing
        self._lock = threading.Lock()  # of the table
        self._rendering = threading.Lock()
        self._pages: dict[object, ExpositionPage] = {}

    def page(self, kind: object, render: Render) -> ExpositionPage:
        """The page of a kind: the last one while it is fresh or rendered again, else a new one by `render`."""
        asked = self._clock()
        known = self._pages.get(kind)
        if known is not None and (asked < known.at + known.fresh_seconds):
            return known
        usable = known is not None and asked < known.at + MAX_AGE_SECONDS and known.fresh_seconds > 0
        if not self._rendering.acquire(blocking=not usable):
            assert known is not None
            return known
        try:
            known = self._pages.get(kind)
            if known is not None and asked < known.at + known.fresh_seconds:  # rendered while this one waited
                return known
            return self._keep(kind, self._rendered(render))
        finally:
            self._rendering.release()

    def age(self, page: ExpositionPage) -> float:
        """Seconds since a page was rendered."""
        return max(0.0, self._clock() - page.at)

    def _rendered(self, render: Render) -> ExpositionPage:
        began = self._clock()
        parts, content_type = render()
        packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)
        packed = [packer.compress(part) for part in parts]
        compressed = b"".join([*packed, packer.flush()])
        ended = self._clock()
        seconds = ended - began
        fresh = min(MAX_AGE_SECONDS, self._sparing * seconds) if seconds >= MIN_SECONDS else 0.0
        return ExpositionPage(compressed, content_type, ended, seconds, fresh)

    def _keep(self, kind: object, page: ExpositionPage) -> ExpositionPage:
        with self._lock:
            self._pages.pop(kind, None)
            self._pages[kind] = page
            while len(self._pages) > MAX_PAGES:
                del self._pages[next(iter(self._pages))]
        return page
