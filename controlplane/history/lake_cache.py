"""Rows of the lake by days, and what was read of it before: the manifest for a few seconds, columns while files stand.

Asked by `controlplane.history.archive`, one for the whole server. From any thread.
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
#: A look at the manifest that takes longer says that the lake hangs.
MANIFEST_TIMEOUT_SECONDS = 10.0
#: What is remembered of days, in bytes of columns.
MAX_CACHED_BYTES = 128 * 1024 * 1024
#: Rows of one answer; the groups of rows read for it may hold more.
MAX_ROWS = 2_000_000
NARROWER_ADVICE = (
    "ask for one query or for a shorter time; `controlplane history rollup` makes long ranges cheap"
)


@dataclass(frozen=True)
class RowFilter:
    """Which rows; `key` stands for them where the answer is remembered, None where it is not."""

    expression: ds.Expression
    key: tuple[str, ...] | None

    def and_(self, expression: ds.Expression, word: str | None = None) -> RowFilter:
        """Only those that pass this, too; `word` stands for it."""
        key = None if word is None or self.key is None else (word, *self.key)
        return RowFilter(self.expression & expression, key)


class LakeCache:
    """The lake at `url`, which may appear, vanish and come back. `monotonic`: seconds, for the manifest's age.

    `seconds` of its methods: how long the caller can wait; LakeError after it.
    """

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic):
        self.url = url
        self._monotonic = monotonic
        self._patience = TimeoutPool(url, monotonic)
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._lake: Lake | None = None
        self._manifest: tuple[float, LakeManifest] | None = None
        self._known: OrderedDict[tuple[object, ...], pa.Table] = OrderedDict()
        self._bytes = 0

    def manifest(self, seconds: float) -> LakeManifest:
        """What the lake holds. LakeError where there is none, or it cannot be read."""
        fresh = self._fresh()
        if fresh is not None:
            return fresh
        try:
            return self._patience.call(
                self._look,
                min(seconds, MANIFEST_TIMEOUT_SECONDS),
                silence=seconds >= MANIFEST_TIMEOUT_SECONDS,
            )
        except FileNotFoundError as error:
            raise LakeError(
                f"the lake at {self.url} cannot be read: {error_line(error)} is missing"
            ) from None

    def _fresh(self) -> LakeManifest | None:
        with self._lock:
            held = self._manifest
        return held[1] if held and self._monotonic() - held[0] <= MANIFEST_TTL_SECONDS else None

    def _look(self) -> LakeManifest:
        with self._looking:
            fresh = self._fresh()  # somebody else's look, while this one waited
            if fresh is None:
                began = self._monotonic()
                if self._lake is None or not self._lake.folder.exists(
                    METADATA_FILE
                ):  # else a lake that is gone looks empty
                    self._lake = Lake.open(self.url)
                fresh = self._lake.manifest()
                with self._lock:
                    self._manifest = began, fresh
            return fresh

    def refresh(self) -> None:
        """Look at the manifest anew: events are about to leave the store, or files are not where they were."""
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
        """Rows of whole days, in the order of the files. TooCostly where they are more than MOST_ROWS."""
        wanted, until = set(days), self._monotonic() + seconds
        try:
            return self._table(table, columns, wanted, where, until)
        except FileNotFoundError:  # another job put other files in their place since the manifest was read
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
        keyed = where is None or where.key is not None
        key = (table, tuple(columns), files, where and where.key)
        known = self._remembered(key) if keyed else None
        if known is None:
            expression = None if where is None else where.expression
            read = LakeRead(self._lake, table, tuple(columns), paths, expression)
            known = self._patience.call(read, until - self._monotonic())
            if keyed:
                self._remember(key, known)
        return known

    def _remembered(self, key: tuple[object, ...]) -> pa.Table | None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def _remember(self, key: tuple[object, ...], table: pa.Table) -> None:
        with self._lock:
            if table.nbytes > MAX_CACHED_BYTES // 2 or key in self._known:
                return
            self._known[key] = table
            self._bytes += table.nbytes
            while self._bytes > MAX_CACHED_BYTES:
                self._bytes -= self._known.popitem(last=False)[1].nbytes


@dataclass(frozen=True, eq=False)
class LakeRead:
    """One reading of files, when it is called. FileNotFoundError where one is not there."""

    lake: Lake | None
    table: str
    columns: tuple[str, ...]
    paths: Sequence[str]
    where: ds.Expression | None

    def __call__(self) -> pa.Table:
        assert self.lake is not None
        folder = self.lake.folder
        # Arrow's own files are read without Python, by many threads.
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
                    f"more than {MAX_ROWS} rows of {self.table} would have to be read: {NARROWER_ADVICE}"
                )
            return data.to_table(columns=list(self.columns), filter=self.where)
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise LakeError(f"a file of {self.table} in {folder} cannot be read: {error}") from None
