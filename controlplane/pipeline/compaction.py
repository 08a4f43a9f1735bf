"""Tidying: many small files of a table and day become few big ones, in the same order, without duplicates.

Called by `controlplane history compact`. What to merge and what to forget is decided in pure functions; the merging is
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
from controlplane.lake.schema import LIFECYCLE, PROGRESS, SOURCES, STATE_OPERATORS, TABLES, arrow_schema
from controlplane.lake.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "compact"
#: Tables to which jobs add; all others are replaced by name, so merging them would undo that.
COMPACTED_TABLES = (PROGRESS.name, SOURCES.name, STATE_OPERATORS.name, LIFECYCLE.name)
#: A run has one of each, whoever told of it.
ONCE_PER_RUN = ["started", "terminated"]
MIN_FILES = 8
TARGET_BYTES = 128 * 2**20
#: Rows of a table in memory at once, unless one query has more on one day.
CHUNK_ROWS = 100_000
BATCH_ROWS = 32_768
#: Commits are made after so many heaps for each core: what is staged meanwhile takes room on the disk.
GROUPS_PER_CORE = 4


@dataclass(frozen=True)
class FileGroup:
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
class CompactedGroup:
    """What a task made of a heap. `problem`: why it made nothing of it."""

    parts: tuple[Part, ...] = ()
    duplicates: int = 0
    problem: str | None = None


@dataclass(frozen=True)
class CompactionSummary:
    """The account of one call. Bytes of files before and after; `problems` by table and day."""

    groups: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    duplicates: int = 0
    consolidated: int = 0
    orphans_removed: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()


# -- what to do ------------------------------------------------------------------------------------


def file_groups(
    manifest: LakeManifest, before: date, many: int = MIN_FILES, big: int = TARGET_BYTES
) -> list[FileGroup]:
    """The files worth merging of days before a day, the largest heaps first.

    Logs that are still written to are left alone: they are imported again, and replace their files by name.
    """
    found: dict[tuple[str, date], list[Part]] = {}
    for part, commit in manifest.live_parts.values():
        small = part.bytes < big / 2
        if (
            part.table in COMPACTED_TABLES
            and part.date < before
            and small
            and commit.facts.get("complete") is not False
        ):
            found.setdefault((part.table, part.date), []).append(part)
    made = [
        FileGroup(table, day, tuple(sorted(parts, key=lambda part: part.path)))
        for (table, day), parts in found.items()
        if len(parts) >= many
    ]
    return sorted(made, key=lambda heap: (-heap.bytes, heap.table, heap.day))


def batch_name(heap: FileGroup, manifest: LakeManifest) -> str:
    """The name of the commit that merges a heap: of just these files as they are now."""
    known = [f"{part.path} {manifest.live_parts[part.path][1].at}" for part in heap.parts]
    return f"{heap.table}-{heap.day}-{hashlib.sha256(chr(10).join(known).encode()).hexdigest()[:12]}"


def consolidatable(manifest: LakeManifest) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Commits that may lie in one file, and those of them that may be forgotten once they have no file.

    What jobs want to know again is kept: the fingerprints of imported logs, the newest batch of each ingest.
    """
    live_parts = {commit.key for _, commit in manifest.live_parts.values()}
    empty = {key for key in manifest.commits if key not in live_parts}
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


def compact_group(
    staging: Staging, heap: FileGroup, chunk_rows: int = CHUNK_ROWS, big: int = TARGET_BYTES
) -> CompactedGroup:
    """Write the rows of a heap once each, sorted, to files of about `big` bytes. A problem is told, not raised."""
    try:
        parts, written = _write(staging, heap, chunk_rows, big)
    except (pa.ArrowException, OSError, LakeError) as error:
        return CompactedGroup(problem=" ".join(str(error).split()))
    read, kept = written
    if read != heap.rows:
        return CompactedGroup(problem=f"{heap.rows} rows were committed but {read} are there")
    return CompactedGroup(tuple(parts), read - kept)


def _write(
    staging: Staging, heap: FileGroup, chunk_rows: int, big: int
) -> tuple[list[Part], tuple[int, int]]:
    folder, read, kept = staging.folder, 0, 0
    parts: list[Part] = []
    paths = [folder.absolute(part.path) for part in heap.parts]
    data = ds.dataset(paths, schema=arrow_schema(heap.table), format="parquet", filesystem=folder.fs)
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
    lasts = _chunk_bounds(data, chunk_rows)
    with tempfile.TemporaryDirectory(prefix="compact-") as place:
        _spill(data, table, lasts, Path(place))
        for path in sorted(Path(place).iterdir()):
            with pa.memory_map(str(path)) as file:
                rows = pa.ipc.open_file(file).read_all()
            yield rows.num_rows, drop_duplicates(table, rows.sort_by(order))
            path.unlink()


def _chunk_bounds(data: ds.Dataset, chunk_rows: int) -> list[str]:
    """The last query of each chunk, in the order of the queries. Rows of no query come after them all."""
    counts: Counter[str] = Counter()
    for batch in data.scanner(columns=["query_id"]).to_batches():
        for one in pc.value_counts(batch["query_id"].drop_null()).to_pylist():
            counts[one["values"]] += one["counts"]
    return [last for _, last in split_by_rows(sorted(counts.items()), chunk_rows)]


def _spill(data: ds.Dataset, table: str, lasts: list[str], place: Path) -> None:
    # One file after the other: a scan of all would read ahead faster than we write.
    batches = (
        batch
        for file in data.get_fragments()
        for batch in file.to_batches(schema=arrow_schema(table), batch_size=BATCH_ROWS, batch_readahead=1)
    )
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        writers: dict[int, pa.RecordBatchWriter] = {}
        for batch in batches:
            for number, rows in _by_chunk(batch, lasts):
                if number not in writers:
                    path = str(place / f"{number:06}")
                    made = pa.ipc.new_file(path, arrow_schema(table), options=options)
                    writers[number] = stack.enter_context(made)
                writers[number].write_batch(rows)


def _by_chunk(batch: pa.RecordBatch, lasts: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    names = batch["query_id"].dictionary_encode()
    chunks = pa.array([bisect_left(lasts, name) for name in names.dictionary.to_pylist()], pa.int32())
    numbers = pc.fill_null(pc.take(chunks, names.indices), len(lasts))
    for number in pc.unique(numbers).to_pylist():
        yield number, batch.filter(pc.equal(numbers, number))


def split_by_rows(counts: Iterable[tuple[str, int]], chunk_rows: int) -> Iterator[tuple[str, str]]:
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


def drop_duplicates(table: str, rows: pa.Table) -> pa.Table:
    """The rows without those whose key was there before."""
    keys = rows.select(list(TABLES[table].key))
    if table == LIFECYCLE.name:
        alone = pc.and_(pc.is_in(keys["event"], pa.array(ONCE_PER_RUN)), pc.is_valid(keys["run_id"]))
        for name in ("app", "reported_at", "agent", "seq"):
            column = keys.schema.get_field_index(name)
            kept = pc.if_else(alone, pa.scalar(None, keys.schema.field(name).type), keys[name])
            keys = keys.set_column(column, name, kept)
    seen = keys.to_pandas().duplicated().to_numpy()
    return rows.filter(pa.array(~seen)) if seen.any() else rows


# -- the job ---------------------------------------------------------------------------------------


def compact(
    lake: Lake,
    now: float,
    spark: Callable[[], SparkSession],
    today: bool = False,
    many: int = MIN_FILES,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> CompactionSummary:
    """Tidy a lake. `spark` is asked for a session once there is something to do; `tell` hears of heaps done."""
    began = time.monotonic()
    with lake.folder.lock(JOB):
        # On a local disk whoever has a journal holds the lock, so all that lie there are of dead processes.
        lake.recover(None if lake.folder.is_local else JOB)
        manifest = lake.manifest()
        last = date.max if today else datetime.fromtimestamp(now, UTC).date()
        account = _compact_groups(lake, manifest, file_groups(manifest, last, many), spark, tell)
        folded, dropped = consolidatable(lake.manifest())
        if account.groups:
            lake.consolidate(folded, dropped)
        return CompactionSummary(
            **{
                **vars(account),
                "consolidated": len(folded) if account.groups else 0,
                "orphans_removed": lake.remove_orphans(now),
                "seconds": time.monotonic() - began,
            }
        )


def _compact_groups(
    lake: Lake,
    manifest: LakeManifest,
    found: list[FileGroup],
    spark: Callable[[], SparkSession],
    tell: Callable[[int, int], None],
) -> CompactionSummary:
    if not found:
        return CompactionSummary()
    context = spark().sparkContext
    size = max(1, GROUPS_PER_CORE * context.defaultParallelism)
    done: list[tuple[FileGroup, CompactedGroup]] = []
    for at in range(0, len(found), size):
        work = [(lake.stage(JOB, batch_name(heap, manifest)), heap) for heap in found[at : at + size]]
        merged = context.parallelize(work, len(work)).map(lambda one: compact_group(*one)).collect()
        for (staging, heap), one in zip(work, merged, strict=True):
            done.append((heap, _commit(lake, manifest, staging, heap, one)))
        tell(len(done), len(found))
    return summarize(done)


def _commit(
    lake: Lake, manifest: LakeManifest, staging: Staging, heap: FileGroup, merged: CompactedGroup
) -> CompactedGroup:
    if merged.problem:
        lake.folder.remove(staging.path)
        return merged
    facts = {"files": len(heap.parts), "duplicates": merged.duplicates}
    try:
        lake.commit(staging, merged.parts, facts, [part.path for part in heap.parts], seen=manifest)
    except LakeError as error:
        return CompactedGroup(problem=str(error))
    return merged


def summarize(done: Iterable[tuple[FileGroup, CompactedGroup]]) -> CompactionSummary:
    done = list(done)
    good = [(heap, merged) for heap, merged in done if merged.problem is None]
    return CompactionSummary(
        groups=len(good),
        files_before=sum(len(heap.parts) for heap, _ in good),
        files_after=sum(len(merged.parts) for _, merged in good),
        bytes_before=sum(heap.bytes for heap, _ in good),
        bytes_after=sum(part.bytes for _, merged in good for part in merged.parts),
        duplicates=sum(merged.duplicates for _, merged in good),
        problems=tuple(f"{h.table} of {h.day}: {m.problem}" for h, m in done if m.problem is not None),
    )
