"""Cache of what the server reads from the lake: the manifest for a few seconds, columns until their files
change.

Used by `controlplane.history.archive`, one for the whole server. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs as filesystems

from alerts.promql.errors import LimitExceeded
from controlplane.errors import LakeError
from controlplane.history.timeout_pool import TimeoutPool, error_line
from controlplane.lake.lake import METADATA_FILE, Lake
from controlplane.lake.manifest import LakeManifest
from controlplane.lake.schema import arrow_schema

MANIFEST_TTL_SECONDS = 5.0
#: A manifest that takes longer to read shows that the lake hangs.
MANIFEST_TIMEOUT_SECONDS = 10.0
#: Total size of the cached columns.
MAX_CACHED_BYTES = 128 * 1024 * 1024
#: Rows of one answer; the row groups read for it may hold more.
MAX_ROWS = 2_000_000
NARROWER_ADVICE = (
    "ask for one query or for a shorter time; `controlplane history rollup` makes long ranges cheap"
)


@dataclass(frozen=True)
class RowFilter:
    """A row filter; `key` identifies it in the cache, None where the result is not cached."""

    expression: ds.Expression
    key: tuple[str, ...] | None

    def and_(self, expression: ds.Expression, tag: str | None = None) -> RowFilter:
        """The conjunction with another filter; `tag` identifies that one in the cache."""
        key = None if tag is None or self.key is None else (tag, *self.key)
        return RowFilter(self.expression & expression, key)


class LakeCache:
    """The lake at `url`, which may appear and disappear. `monotonic`: clock in seconds.

    The methods' `seconds`: how long the caller can wait; LakeError after that.
    """

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic):
        self.url = url
        self._monotonic = monotonic
        self._pool = TimeoutPool(url, monotonic)
        self._lock, self._load_lock = threading.Lock(), threading.Lock()
        self._lake: Lake | None = None
        self._manifest: tuple[float, LakeManifest] | None = None
        self._tables: OrderedDict[tuple[object, ...], pa.Table] = OrderedDict()
        self._bytes = 0

    def manifest(self, seconds: float) -> LakeManifest:
        """The lake's manifest. LakeError where there is no lake or it cannot be read."""
        fresh = self._fresh()
        if fresh is not None:
            return fresh
        try:
            return self._pool.call(
                self._load_manifest,
                min(seconds, MANIFEST_TIMEOUT_SECONDS),
                probe=seconds >= MANIFEST_TIMEOUT_SECONDS,
            )
        except FileNotFoundError as error:
            raise LakeError(
                f"the lake at {self.url} cannot be read: {error_line(error)} is missing"
            ) from None

    def _fresh(self) -> LakeManifest | None:
        with self._lock:
            entry = self._manifest
        return entry[1] if entry and self._monotonic() - entry[0] <= MANIFEST_TTL_SECONDS else None

    def _load_manifest(self) -> LakeManifest:
        with self._load_lock:
            fresh = self._fresh()  # loaded by another thread while this one waited
            if fresh is None:
                began = self._monotonic()
                if self._lake is None or not self._lake.folder.exists(
                    METADATA_FILE
                ):  # a lake whose root is gone would look empty
                    self._lake = Lake.open(self.url)
                fresh = self._lake.manifest()
                with self._lock:
                    self._manifest = began, fresh
            return fresh

    def refresh(self) -> None:
        """Discard the cached manifest: events are about to leave the store, or files have moved."""
        with self._lock:
            self._manifest = None

    def table(
        self,
        table: str,
        columns: Sequence[str],
        days: Iterable[date],
        where: RowFilter | None,
        seconds: float,
    ) -> pa.Table:
        """Rows of whole days, in file order. TooCostly where there are more than MAX_ROWS."""
        wanted, until = set(days), self._monotonic() + seconds
        try:
            return self._table(table, columns, wanted, where, until)
        except FileNotFoundError:  # another job replaced files since the manifest was read
            self.refresh()
        try:
            return self._table(table, columns, wanted, where, until)
        except FileNotFoundError as error:
            self.refresh()
            raise LakeError(f"a file of {table} in {self.url} is missing: {error_line(error)}") from None

    def _table(
        self, table: str, columns: Sequence[str], wanted: set[date], where: RowFilter | None, until: float
    ) -> pa.Table:
        first, last = (min(wanted), max(wanted)) if wanted else (date.min, date.min)
        manifest = self.manifest(until - self._monotonic())
        parts = [part for part in manifest.parts(table, first, last) if part.date in wanted]
        if not parts:
            return pa.schema([arrow_schema(table).field(name) for name in columns]).empty_table()
        paths = [part.path for part in parts]
        files = tuple((part.path, part.bytes) for part in parts)
        is_cacheable = where is None or where.key is not None
        key = (table, tuple(columns), files, where and where.key)
        cached = self._remembered(key) if is_cacheable else None
        if cached is None:
            expression = None if where is None else where.expression
            read = LakeRead(self._lake, table, tuple(columns), paths, expression)
            cached = self._pool.call(read, until - self._monotonic())
            if is_cacheable:
                self._remember(key, cached)
        return cached

    def _remembered(self, key: tuple[object, ...]) -> pa.Table | None:
        with self._lock:
            cached = self._tables.get(key)
            if cached is not None:
                self._tables.move_to_end(key)
            return cached

    def _remember(self, key: tuple[object, ...], table: pa.Table) -> None:
        with self._lock:
            if table.nbytes > MAX_CACHED_BYTES // 2 or key in self._tables:
                return
            self._tables[key] = table
            self._bytes += table.nbytes
            while self._bytes > MAX_CACHED_BYTES:
                self._bytes -= self._tables.popitem(last=False)[1].nbytes


@dataclass(frozen=True, eq=False)
class LakeRead:
    """A read of files, executed when called. FileNotFoundError where a file is missing."""

    lake: Lake | None
    table: str
    columns: tuple[str, ...]
    paths: Sequence[str]
    where: ds.Expression | None

    def __call__(self) -> pa.Table:
        assert self.lake is not None
        folder = self.lake.folder
        # Arrow reads local files without Python, in several threads.
        fs = filesystems.LocalFileSystem() if folder.is_local else folder.fs
        try:
            data = ds.dataset(
                [folder.absolute(path) for path in self.paths],
                schema=arrow_schema(self.table),
                format="parquet",
                filesystem=fs,
            )
            if data.count_rows(filter=self.where) > MAX_ROWS:
                raise LimitExceeded(
                    f"more than {MAX_ROWS} rows of {self.table} would be read: {NARROWER_ADVICE}"
                )
            return data.to_table(columns=list(self.columns), filter=self.where)
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise LakeError(f"a file of {self.table} in {folder} cannot be read: {error}") from None
