"""Tidying: many small files of a table and day become few big ones, in the same order, without duplicates.

Called by `controlplane history tidy`. What to merge and what to forget is decided in pure functions; the merging is
done in tasks of Spark, one table and day each, with memory for a hundred thousand rows.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from controlplane.errors import LakeError
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest, Part
from controlplane.lake.schema import LIFECYCLE, PROGRESS, SOURCES, STATE_OPERATORS, TABLES, arrow
from controlplane.lake.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "tidy"
#: Tables to which jobs add; all others are replaced by name, so merging them would undo that.
MERGED = (PROGRESS.name, SOURCES.name, STATE_OPERATORS.name, LIFECYCLE.name)
#: A run has one of each, whoever told of it.
ONCE = ["started", "terminated"]
MANY_FILES = 8
BIG_BYTES = 128 * 2**20
#: Rows of a table in memory at once, unless one query has more on one day.
CHUNK_ROWS = 100_000
AT_ONCE_ROWS = 32_768
#: Commits are made after so many heaps for each core: what is staged meanwhile takes room on the disk.
ROUND = 4


@dataclass(frozen=True)
class Heap:
    """The small files of one table and day."""

    table: str
    day: date
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True)
class Merged:
    """What a task made of a heap. `problem`: why it made nothing of it."""

    parts: tuple[Part, ...] = ()
    duplicates: int = 0
    problem: str | None = None


@dataclass(frozen=True)
class Tidied:
    """The account of one call. Bytes of files before and after; `problems` by table and day."""

    heaps: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    duplicates: int = 0
    folded: int = 0
    swept: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()


# -- what to do ------------------------------------------------------------------------------------


def heaps(manifest: LakeManifest, before: date, many: int = MANY_FILES, big: int = BIG_BYTES) -> list[Heap]:
    """The files worth merging of days before a day, the largest heaps first.

    Logs that are still written to are left alone: they are imported again, and replace their files by name.
    """
    found: dict[tuple[str, date], list[Part]] = {}
    for part, commit in manifest.standing.values():
        small = part.bytes < big / 2
        if (
            part.table in MERGED
            and part.date < before
            and small
            and commit.facts.get("complete") is not False
        ):
            found.setdefault((part.table, part.date), []).append(part)
    made = [
        Heap(table, day, tuple(sorted(parts, key=lambda part: part.path)))
        for (table, day), parts in found.items()
        if len(parts) >= many
    ]
    return sorted(made, key=lambda heap: (-heap.bytes, heap.table, heap.day))


def batch_of(heap: Heap, manifest: LakeManifest) -> str:
    """The name of the commit that merges a heap: of just these files as they are now."""
    known = [f"{part.path} {manifest.standing[part.path][1].at}" for part in heap.parts]
    return f"{heap.table}-{heap.day}-{hashlib.sha256(chr(10).join(known).encode()).hexdigest()[:12]}"


def foldable(manifest: LakeManifest) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Commits that may lie in one file, and those of them that may be forgotten once they have no file.

    What jobs want to know again is kept: the fingerprints of imported logs, the newest batch of each ingest.
    """
    standing = {commit.key for _, commit in manifest.standing.values()}
    empty = {key for key in manifest.commits if key not in standing}
    newest: dict[str, str] = {}
    for job, batch in manifest.commits:
        if job == "ingest":
            query = batch.rpartition("-")[0]
            newest[query] = max(newest.get(query, ""), batch)
    done = {(job, batch) for job, batch in empty if job == JOB}
    done |= {
        (job, batch) for job, batch in empty if job == "ingest" and newest[batch.rpartition("-")[0]] != batch
    }
    return empty | {key for key in manifest.commits if key[0] == JOB}, done


# -- merging: runs on executors -------------------------------------------------------------------


def merge(staging: Staging, heap: Heap, chunk_rows: int = CHUNK_ROWS, big: int = BIG_BYTES) -> Merged:
    """Write the rows of a heap once each, sorted, to files of about `big` bytes. A problem is told, not raised."""
    try:
        parts, written = _write(staging, heap, chunk_rows, big)
    except (pa.ArrowException, OSError, LakeError) as error:
        return Merged(problem=" ".join(str(error).split()))
    read, kept = written
    if read != heap.rows:
        return Merged(problem=f"{heap.rows} rows were committed but {read} are there")
    return Merged(tuple(parts), read - kept)


def _write(staging: Staging, heap: Heap, chunk_rows: int, big: int) -> tuple[list[Part], tuple[int, int]]:
    folder, read, kept = staging.folder, 0, 0
    parts: list[Part] = []
    paths = [folder.at(part.path) for part in heap.parts]
    data = ds.dataset(paths, schema=arrow(heap.table), format="parquet", filesystem=folder.fs)
    chunks = _chunks(data, heap.table, chunk_rows)
    ahead = next(chunks, None)
    while ahead is not None:
        with staging.file(heap.table, heap.day, str(len(parts))) as file:
            full = False
            while ahead is not None and not full:
                read, kept = read + ahead[0], kept + ahead[1].num_rows
                file.write(ahead[1])
                ahead, full = next(chunks, None), file.size >= big
        parts.append(file.part)
    return parts, (read, kept)


def _chunks(data: ds.Dataset, table: str, chunk_rows: int) -> Iterator[tuple[int, pa.Table]]:
    """Rows of some queries after the other: how many were read, and those to be kept, sorted.

    Every file has rows of all queries, and is read once: its rows are put aside on the local disk, a file a chunk.
    """
    order = [(name, "ascending") for name in TABLES[table].order]
    lasts = _lasts(data, chunk_rows)
    with tempfile.TemporaryDirectory(prefix="tidy-") as place:
        _put_aside(data, table, lasts, Path(place))
        for path in sorted(Path(place).iterdir()):
            with pa.memory_map(str(path)) as file:
                rows = pa.ipc.open_file(file).read_all()
            yield rows.num_rows, once(table, rows.sort_by(order))
            path.unlink()


def _lasts(data: ds.Dataset, chunk_rows: int) -> list[str]:
    """The last query of each chunk, in the order of the queries. Rows of no query come after them all."""
    counts: Counter[str] = Counter()
    for batch in data.scanner(columns=["query_id"]).to_batches():
        for one in pc.value_counts(batch["query_id"].drop_null()).to_pylist():
            counts[one["values"]] += one["counts"]
    return [last for _, last in spans(sorted(counts.items()), chunk_rows)]


def _put_aside(data: ds.Dataset, table: str, lasts: list[str], place: Path) -> None:
    # One file after the other: a scan of all would read ahead faster than we write.
    batches = (
        batch
        for file in data.get_fragments()
        for batch in file.to_batches(schema=arrow(table), batch_size=AT_ONCE_ROWS, batch_readahead=1)
    )
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        writers: dict[int, pa.RecordBatchWriter] = {}
        for batch in batches:
            for number, rows in _by_chunk(batch, lasts):
                if number not in writers:
                    path = str(place / f"{number:06}")
                    made = pa.ipc.new_file(path, arrow(table), options=options)
                    writers[number] = stack.enter_context(made)
                writers[number].write_batch(rows)


def _by_chunk(batch: pa.RecordBatch, lasts: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    names = batch["query_id"].dictionary_encode()
    chunks = pa.array([bisect_left(lasts, name) for name in names.dictionary.to_pylist()], pa.int32())
    numbers = pc.fill_null(pc.take(chunks, names.indices), len(lasts))
    for number in pc.unique(numbers).to_pylist():
        yield number, batch.filter(pc.equal(numbers, number))


def spans(counts: Iterable[tuple[str, int]], chunk_rows: int) -> Iterator[tuple[str, str]]:
    """First and last of runs of names with at most so many rows together, or with one name."""
    first = last = None
    held = 0
    for name, rows in counts:
        if first is not None and last is not None and held + rows > chunk_rows:
            yield first, last
            first, held = None, 0
        first, last, held = first if first is not None else name, name, held + rows
    if first is not None and last is not None:
        yield first, last


def once(table: str, rows: pa.Table) -> pa.Table:
    """The rows without those whose key was there before."""
    keys = rows.select(list(TABLES[table].key))
    if table == LIFECYCLE.name:
        alone = pc.and_(pc.is_in(keys["event"], pa.array(ONCE)), pc.is_valid(keys["run_id"]))
        for name in ("app", "reported_at", "agent", "seq"):
            column = keys.schema.get_field_index(name)
            kept = pc.if_else(alone, pa.scalar(None, keys.schema.field(name).type), keys[name])
            keys = keys.set_column(column, name, kept)
    seen = keys.to_pandas().duplicated().to_numpy()
    return rows.filter(pa.array(~seen)) if seen.any() else rows


# -- the job ---------------------------------------------------------------------------------------


def tidy(
    lake: Lake,
    now: float,
    spark: Callable[[], SparkSession],
    today: bool = False,
    many: int = MANY_FILES,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> Tidied:
    """Tidy a lake. `spark` is asked for a session once there is something to do; `tell` hears of heaps done."""
    began = time.monotonic()
    with lake.folder.held(JOB):
        # On a local disk whoever has a journal holds the lock, so all that lie there are of dead processes.
        lake.recover(None if lake.folder.is_local else JOB)
        manifest = lake.manifest()
        last = date.max if today else datetime.fromtimestamp(now, UTC).date()
        account = _merge_all(lake, manifest, heaps(manifest, last, many), spark, tell)
        folded, dropped = foldable(lake.manifest())
        if account.heaps:
            lake.fold(folded, dropped)
        return Tidied(
            **{
                **vars(account),
                "folded": len(folded) if account.heaps else 0,
                "swept": lake.sweep(now),
                "seconds": time.monotonic() - began,
            }
        )


def _merge_all(
    lake: Lake,
    manifest: LakeManifest,
    found: list[Heap],
    spark: Callable[[], SparkSession],
    tell: Callable[[int, int], None],
) -> Tidied:
    if not found:
        return Tidied()
    context = spark().sparkContext
    size = max(1, ROUND * context.defaultParallelism)
    done: list[tuple[Heap, Merged]] = []
    for at in range(0, len(found), size):
        work = [(lake.stage(JOB, batch_of(heap, manifest)), heap) for heap in found[at : at + size]]
        merged = context.parallelize(work, len(work)).map(lambda one: merge(*one)).collect()
        for (staging, heap), one in zip(work, merged, strict=True):
            done.append((heap, _commit(lake, manifest, staging, heap, one)))
        tell(len(done), len(found))
    return account_of(done)


def _commit(lake: Lake, manifest: LakeManifest, staging: Staging, heap: Heap, merged: Merged) -> Merged:
    if merged.problem:
        lake.folder.remove(staging.path)
        return merged
    facts = {"files": len(heap.parts), "duplicates": merged.duplicates}
    try:
        lake.commit(staging, merged.parts, facts, [part.path for part in heap.parts], seen=manifest)
    except LakeError as error:
        return Merged(problem=str(error))
    return merged


def account_of(done: Iterable[tuple[Heap, Merged]]) -> Tidied:
    done = list(done)
    good = [(heap, merged) for heap, merged in done if merged.problem is None]
    return Tidied(
        heaps=len(good),
        files_before=sum(len(heap.parts) for heap, _ in good),
        files_after=sum(len(merged.parts) for _, merged in good),
        bytes_before=sum(heap.bytes for heap, _ in good),
        bytes_after=sum(part.bytes for _, merged in good for part in merged.parts),
        duplicates=sum(merged.duplicates for _, merged in good),
        problems=tuple(f"{h.table} of {h.day}: {m.problem}" for h, m in done if m.problem is not None),
    )
