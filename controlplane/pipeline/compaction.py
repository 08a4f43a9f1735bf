"""Compaction: merge many small files of a table and day into few large ones, sorted and without duplicates.

Called by `controlplane history compact`. Pure functions decide what to merge and which commits to forget;
Spark tasks merge, one table and day each, with at most a hundred thousand rows in memory.
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
#: Tables that jobs append to. Files of all other tables are replaced by name, so they must not be merged.
COMPACTED_TABLES = (PROGRESS.name, SOURCES.name, STATE_OPERATORS.name, LIFECYCLE.name)
#: Events that occur once per run, whoever reports them.
ONCE_PER_RUN = ["started", "terminated"]
MIN_FILES = 8
TARGET_BYTES = 128 * 2**20
#: Rows in memory at once, unless one query has more on one day.
CHUNK_ROWS = 100_000
BATCH_ROWS = 32_768
#: Groups per core between commits: staged files occupy disk space.
GROUPS_PER_CORE = 4


@dataclass(frozen=True)
class FileGroup:
    """The small files of one table and day."""

    table: str
    day: date
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True)
class CompactedGroup:
    """The result of a group. `problem`: why it was not compacted."""

    parts: tuple[Part, ...] = ()
    duplicates: int = 0
    problem: str | None = None


@dataclass(frozen=True)
class CompactionSummary:
    """Summary of one call: groups, files and bytes before and after; `problems` by table and day."""

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
    manifest: LakeManifest, before: date, min_files: int = MIN_FILES, target_bytes: int = TARGET_BYTES
) -> list[FileGroup]:
    """The files worth merging of days before `before`, largest groups first.

    Logs in progress are left alone: they are imported again, and replace their files by name.
    """
    found: dict[tuple[str, date], list[Part]] = {}
    for part, commit in manifest.live_parts.values():
        small = part.bytes < target_bytes / 2
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
        if len(parts) >= min_files
    ]
    return sorted(made, key=lambda group: (-group.bytes, group.table, group.day))


def batch_name(group: FileGroup, manifest: LakeManifest) -> str:
    """The name of the commit that compacts a group, derived from exactly these files."""
    known = [f"{part.path} {manifest.live_parts[part.path][1].at}" for part in group.parts]
    return f"{group.table}-{group.day}-{hashlib.sha256(chr(10).join(known).encode()).hexdigest()[:12]}"


def consolidatable(manifest: LakeManifest) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Commits that may be consolidated in one file, and those of them that may be forgotten once they have no
    file.

    Kept are commits that jobs need again: fingerprints of imported logs, the newest batch of each ingest
    stream.
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
    staging: Staging, group: FileGroup, chunk_rows: int = CHUNK_ROWS, target_bytes: int = TARGET_BYTES
) -> CompactedGroup:
    """Write each row of a group once, sorted, to files of about `target_bytes`. Errors are returned, not
    raised.
    """
    try:
        parts, written = _write(staging, group, chunk_rows, target_bytes)
    except (pa.ArrowException, OSError, LakeError) as error:
        return CompactedGroup(problem=" ".join(str(error).split()))
    read, kept = written
    if read != group.rows:
        return CompactedGroup(problem=f"{group.rows} rows were committed but {read} were read")
    return CompactedGroup(tuple(parts), read - kept)


def _write(
    staging: Staging, group: FileGroup, chunk_rows: int, target_bytes: int
) -> tuple[list[Part], tuple[int, int]]:
    folder, read, kept = staging.folder, 0, 0
    parts: list[Part] = []
    paths = [folder.absolute(part.path) for part in group.parts]
    data = ds.dataset(paths, schema=arrow_schema(group.table), format="parquet", filesystem=folder.fs)
    chunks = _chunks(data, group.table, chunk_rows)
    next_chunk = next(chunks, None)
    while next_chunk is not None:
        with staging.file(group.table, group.day, str(len(parts))) as file:
            full = False
            while next_chunk is not None and not full:
                read, kept = read + next_chunk[0], kept + next_chunk[1].num_rows
                file.write(next_chunk[1])
                next_chunk, full = next(chunks, None), file.size >= target_bytes
        parts.append(file.part)
    return parts, (read, kept)


def _chunks(data: ds.Dataset, table: str, chunk_rows: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of a few queries at a time: the number read, and those to keep, sorted.

    Every file has rows of all queries and is read once: its rows are spilled to the local disk, one file per
    chunk.
    """
    order = [(name, "ascending") for name in TABLES[table].order]
    bounds = _chunk_bounds(data, chunk_rows)
    with tempfile.TemporaryDirectory(prefix="compact-") as place:
        _spill(data, table, bounds, Path(place))
        for path in sorted(Path(place).iterdir()):
            with pa.memory_map(str(path)) as file:
                rows = pa.ipc.open_file(file).read_all()
            yield rows.num_rows, drop_duplicates(table, rows.sort_by(order))
            path.unlink()


def _chunk_bounds(data: ds.Dataset, chunk_rows: int) -> list[str]:
    """The last query id of each chunk. Rows without a query id come last."""
    counts: Counter[str] = Counter()
    for batch in data.scanner(columns=["query_id"]).to_batches():
        for item in pc.value_counts(batch["query_id"].drop_null()).to_pylist():
            counts[item["values"]] += item["counts"]
    return [last for _, last in split_by_rows(sorted(counts.items()), chunk_rows)]


def _spill(data: ds.Dataset, table: str, bounds: list[str], place: Path) -> None:
    # One file at a time: a scan of all would read ahead faster than rows are written.
    batches = (
        batch
        for file in data.get_fragments()
        for batch in file.to_batches(schema=arrow_schema(table), batch_size=BATCH_ROWS, batch_readahead=1)
    )
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        writers: dict[int, pa.RecordBatchWriter] = {}
        for batch in batches:
            for number, rows in _by_chunk(batch, bounds):
                if number not in writers:
                    path = str(place / f"{number:06}")
                    made = pa.ipc.new_file(path, arrow_schema(table), options=options)
                    writers[number] = stack.enter_context(made)
                writers[number].write_batch(rows)


def _by_chunk(batch: pa.RecordBatch, bounds: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    names = batch["query_id"].dictionary_encode()
    chunks = pa.array([bisect_left(bounds, name) for name in names.dictionary.to_pylist()], pa.int32())
    numbers = pc.fill_null(pc.take(chunks, names.indices), len(bounds))
    for number in pc.unique(numbers).to_pylist():
        yield number, batch.filter(pc.equal(numbers, number))


def split_by_rows(counts: Iterable[tuple[str, int]], chunk_rows: int) -> Iterator[tuple[str, str]]:
    """First and last name of runs with at most `chunk_rows` rows, or with a single name."""
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
    """The rows without repetitions of a key."""
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
    min_files: int = MIN_FILES,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> CompactionSummary:
    """Compact a lake. `spark` is called for a session once there is work; `on_progress` gets the groups done
    and their total.
    """
    began = time.monotonic()
    with lake.folder.lock(JOB):
        # On a local disk the lock is held while a journal exists, so existing journals are of dead processes.
        lake.recover(None if lake.folder.is_local else JOB)
        manifest = lake.manifest()
        last = date.max if today else datetime.fromtimestamp(now, UTC).date()
        summary = _compact_groups(lake, manifest, file_groups(manifest, last, min_files), spark, on_progress)
        folded, dropped = consolidatable(lake.manifest())
        if summary.groups:
            lake.consolidate(folded, dropped)
        return CompactionSummary(
            **{
                **vars(summary),
                "consolidated": len(folded) if summary.groups else 0,
                "orphans_removed": lake.remove_orphans(now),
                "seconds": time.monotonic() - began,
            }
        )


def _compact_groups(
    lake: Lake,
    manifest: LakeManifest,
    found: list[FileGroup],
    spark: Callable[[], SparkSession],
    on_progress: Callable[[int, int], None],
) -> CompactionSummary:
    if not found:
        return CompactionSummary()
    context = spark().sparkContext
    size = max(1, GROUPS_PER_CORE * context.defaultParallelism)
    done: list[tuple[FileGroup, CompactedGroup]] = []
    for at in range(0, len(found), size):
        work = [(lake.stage(JOB, batch_name(group, manifest)), group) for group in found[at : at + size]]
        merged = context.parallelize(work, len(work)).map(lambda item: compact_group(*item)).collect()
        for (staging, group), item in zip(work, merged, strict=True):
            done.append((group, _commit(lake, manifest, staging, group, item)))
        on_progress(len(done), len(found))
    return summarize(done)


def _commit(
    lake: Lake, manifest: LakeManifest, staging: Staging, group: FileGroup, merged: CompactedGroup
) -> CompactedGroup:
    if merged.problem:
        lake.folder.remove(staging.path)
        return merged
    facts = {"files": len(group.parts), "duplicates": merged.duplicates}
    try:
        lake.commit(staging, merged.parts, facts, [part.path for part in group.parts], seen=manifest)
    except LakeError as error:
        return CompactedGroup(problem=str(error))
    return merged


def summarize(done: Iterable[tuple[FileGroup, CompactedGroup]]) -> CompactionSummary:
    """The summary of all groups."""
    done = list(done)
    good = [(group, merged) for group, merged in done if merged.problem is None]
    return CompactionSummary(
        groups=len(good),
        files_before=sum(len(group.parts) for group, _ in good),
        files_after=sum(len(merged.parts) for _, merged in good),
        bytes_before=sum(group.bytes for group, _ in good),
        bytes_after=sum(part.bytes for _, merged in good for part in merged.parts),
        duplicates=sum(merged.duplicates for _, merged in good),
        problems=tuple(f"{h.table} of {h.day}: {m.problem}" for h, m in done if m.problem is not None),
    )
