"""Advice on the capacity of a query: which setting, why, with the figures. Pure.

Each check reads what reports and the shape of the query state; where they do not, it gives no advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from controlplane.capacity import configuration
from controlplane.capacity.assessment import CapacityAssessment
from controlplane.capacity.bottleneck import task_slots
from controlplane.capacity.state_runway import amount
from controlplane.capacity.throughput import batch_rows, throughput
from controlplane.health.context import QueryContext, percentile
from controlplane.health.formatting import number, rows, span
from controlplane.health.offset_units import lag_rows
from controlplane.model import OperatorSample, ProgressSample
from controlplane.shapes.model import Shape

#: A part of a batch that is worth a change.
LARGE_RATIO, COMMIT_RATIO = 0.5, 0.3
#: A query that is busy less than this waits although rows do.
BUSY_RATIO = 0.7
#: So many state tasks for each that runs at once, with fewer rows each, cost more than they do.
MANY_WAVES, FEW_ROWS = 4, 1000
#: An unusual batch: so many times as long and as large as the median.
UNUSUAL = 5.0
#: Of the batches, this share must overrun the interval, or load state anew.
MOST_RATIO, OFTEN_RATIO = 0.8, 0.5
#: Spark's own default for the bound of RocksDB's memory; below it the bound changes nothing.
ROCKSDB_BYTES = 500e6
MIN_CACHE_READS, MISS_RATIO = 10_000, 0.5
HEAP_RATIO = 0.3
NEW_CHECKPOINT = "A checkpoint pins it: the change takes a new checkpoint."


@dataclass(frozen=True)
class CapacityAdvice:
    """What to set. `now`: its value, None where it is not set; `needs_new_checkpoint`: a restart does not take it."""

    setting: str
    now: str | None
    advice: str
    reason: str
    needs_new_checkpoint: bool = False


@dataclass(frozen=True)
class AdviceInput:
    """What advice is based on. `shape`: of the newest run; `heap`: bytes in which state is kept, see `heap_bytes`."""

    context: QueryContext
    found: CapacityAssessment
    shape: Shape | None
    heap: float | None = None

    @property
    def batches(self) -> Sequence[ProgressSample]:
        """The recent batches; empty where nothing is claimed from them."""
        return self.found.batches if self.found.throughput is not None else ()

    @property
    def operators(self) -> Sequence[OperatorSample]:
        """The stateful operators of the last batch."""
        return self.batches[-1].operators if self.batches else ()

    def ratio(self, *parts: str) -> float:
        """The share of these parts in the mean batch."""
        known = self.found.bottleneck.parts if self.found.bottleneck is not None else ()
        return sum(part.ratio for part in known if part.name in parts)

    def setting(self, name: str) -> str | None:
        """A setting of the program."""
        return self.shape.setting(name) if self.shape is not None else None


def advice(seen: AdviceInput) -> list[CapacityAdvice]:
    """What would help, in the order of the checks."""
    return [found for check in CHECKS for found in check(seen)]


def _partitions(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    stores = max((op.shuffle_partitions or 0 for op in seen.operators), default=0)
    slots = task_slots(seen.context.view)
    if not stores or not slots or seen.ratio("tasks", "state_commit") < LARGE_RATIO:
        return
    each = median(sum(op.rows_updated for op in s.operators) for s in seen.batches) / stores
    setting, busy = "spark.sql.shuffle.partitions", seen.ratio("tasks", "state_commit")
    if stores >= MANY_WAVES * slots and each < FEW_ROWS:
        reason = (
            f"Each batch runs {stores} state tasks on {slots} cores and updates {rows(each)} in each; tasks and commits "
            f"are {busy:.0%} of a batch. {NEW_CHECKPOINT}"
        )
        yield CapacityAdvice(setting, str(stores), f"Set it to {slots} to {2 * slots}.", reason, True)
    elif stores < slots and each >= FEW_ROWS:
        tasks = "1 state task runs" if stores == 1 else f"{stores} state tasks run"
        reason = (
            f"Only {tasks} at once on {slots} cores, with {rows(each)} each; tasks and commits are {busy:.0%} of a "
            f"batch. {NEW_CHECKPOINT}"
        )
        yield CapacityAdvice(setting, str(stores), f"Set it to {slots} or more.", reason, True)


def _rate_limit(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    limit, load, interval = configuration.rate_limit(seen.shape), seen.found.throughput, seen.context.interval
    if limit is None or load is None or not interval or load.busy_ratio >= BUSY_RATIO:
        return
    full = all(batch_rows(seen.context, s) >= 0.95 * limit[1] for s in seen.batches)
    waiting = lag_rows(seen.batches[-1], seen.context.row_sources)
    free = throughput(seen.context, seen.batches, as_it_reads=False)
    if (
        not full
        or not waiting
        or free is None
        or free.capacity is None
        or free.capacity * interval <= limit[1]
    ):
        return
    reason = (
        f"Every recent batch read all that it allows while {rows(waiting)} wait, and the query is busy only "
        f"{load.busy_ratio:.0%} of the time."
    )
    better = BUSY_RATIO * free.capacity * interval
    if better > limit[1]:
        yield CapacityAdvice(limit[0], number(limit[1]), f"Raise it to about {number(better)}.", reason)


def _no_rate_limit(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    sources = (seen.shape.sources if seen.shape is not None else None) or ()
    names = {"kafka": configuration.KAFKA_LIMIT, "FileStreamSource": configuration.FILES_LIMIT}
    source = sources[0] if len(sources) == 1 else None
    option = names.get(source.format or "", names.get(source.type or "")) if source is not None else None
    if source is None or option is None or option.lower() in source.options or not seen.batches:
        return
    typical = (
        median(s.duration for s in seen.batches),
        median(batch_rows(seen.context, s) for s in seen.batches),
    )
    longest = max(seen.context.batches, key=lambda s: s.duration)
    read = batch_rows(seen.context, longest)
    if longest.duration < UNUSUAL * typical[0] or read < UNUSUAL * typical[1] or read <= 0:
        return
    if longest.duration <= max(seen.context.interval, 1.0):
        return
    reason = (
        f"Batch {longest.batch_id} read {rows(read)} at once and took {span(longest.duration)}; the median batch takes "
        f"{span(typical[0])}. A limit divides what waits after a pause into batches."
    )
    yield CapacityAdvice(
        option, None, "Set it to what a batch can read in the time that results may be late.", reason
    )


def _trigger(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    load, interval = seen.found.throughput, seen.context.interval
    if load is None or seen.context.view.facts.trigger_interval is None:
        return
    longer = sum(s.duration > interval for s in seen.batches)
    if interval > 0 and longer >= MOST_RATIO * len(seen.batches):
        p95 = percentile((s.duration for s in seen.batches), 0.95)
        reason = f"{longer} of {len(seen.batches)} batches took longer than the interval; 95 % of them end in {span(p95)}."
        yield CapacityAdvice(
            "trigger interval",
            span(interval),
            f"Set it to {span(p95)} or more, or reduce the work of a batch.",
            reason,
        )
    fixed = seen.ratio("source", "planning", "logs")
    if interval == 0 and fixed >= LARGE_RATIO and load.busy_ratio >= BUSY_RATIO:
        typical = median(s.duration for s in seen.batches)
        reason = (
            f"{fixed:.0%} of a batch goes to planning, logs and finding new data, which each batch needs whatever its "
            f"size; the median batch takes {span(typical)}. Fewer and larger batches need less of it."
        )
        yield CapacityAdvice("trigger interval", "none", f"Set it to {span(5 * typical)} or more.", reason)


def _changelog(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    commits = seen.ratio("state_commit")
    if not configuration.is_rocksdb(seen.shape) or commits < COMMIT_RATIO:
        return
    if seen.setting(configuration.CHANGELOG) == "false":
        reason = f"Committing state takes {commits:.0%} of a batch: each commit uploads RocksDB's files instead of changes."
        yield CapacityAdvice(
            configuration.CHANGELOG, "false", "Set it to true and restart the query.", reason
        )


def _rocksdb_memory(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    if not configuration.is_rocksdb(seen.shape) or not seen.operators:
        return
    memory = sum(op.memory_bytes for op in seen.operators)
    if memory >= ROCKSDB_BYTES and seen.setting(configuration.BOUNDED) != "true":
        reason = f"RocksDB uses {amount(memory, 'bytes')} outside the heap and nothing limits it."
        now = seen.setting(configuration.BOUNDED)
        todo = "Set it to true, and rocksdb.maxMemoryUsageMB to what an executor can spare."
        yield CapacityAdvice(configuration.BOUNDED, now, todo, reason)
    hits, misses = (_sum(seen, f"rocksdbReadBlockCache{kind}Count") for kind in ("Hit", "Miss"))
    read = hits + misses
    if read >= MIN_CACHE_READS and misses >= MISS_RATIO * read and seen.ratio("tasks") >= LARGE_RATIO:
        reason = f"{misses / read:.0%} of {number(read)} reads of state in the recent batches missed RocksDB's block cache."
        now = seen.setting(configuration.BLOCK_CACHE)
        yield CapacityAdvice(configuration.BLOCK_CACHE, now, "Raise it (Spark's default is 8).", reason)


def _sum(seen: AdviceInput, metric: str) -> float:
    return sum(op.metrics.get(metric, 0.0) for sample in seen.batches for op in sample.operators)


def _heap(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    memory = sum(op.memory_bytes for op in seen.operators)
    if (
        seen.heap is None
        or configuration.is_rocksdb(seen.shape) is not False
        or memory < HEAP_RATIO * seen.heap
    ):
        return
    reason = f"State takes {amount(memory, 'bytes')} of the driver's heap of {amount(seen.heap, 'bytes')}. {NEW_CHECKPOINT}"
    now = seen.shape.in_force(configuration.PROVIDER) if seen.shape is not None else None
    yield CapacityAdvice(configuration.PROVIDER, now, "Use the RocksDB provider.", reason, True)


def _locality(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    executors = seen.context.view.executors or 0
    loads = [sum(op.metrics.get("rocksdbNumLoadedFromDfs", 0.0) for op in s.operators) for s in seen.batches]
    moved = sum(count > 0 for count in loads)
    if executors < 2 or not loads or moved < OFTEN_RATIO * len(loads):
        return
    reason = (
        f"In {moved} of {len(loads)} batches tasks loaded {number(sum(loads))} state stores from the checkpoint, because "
        f"they ran on another of the {executors} executors than before."
    )
    yield CapacityAdvice(
        "spark.locality.wait", seen.setting("spark.locality.wait"), "Raise it (default 3s).", reason
    )


def _skew(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    found, sources = seen.found.bottleneck, (seen.shape.sources if seen.shape is not None else None) or ()
    if found is None or found.part != "skewed_partition" or [s.format for s in sources] != ["kafka"]:
        return
    now = sources[0].options.get("minpartitions")
    yield CapacityAdvice(
        "minPartitions",
        now,
        "Set it to a multiple of the topic's partitions: Spark divides large ones.",
        found.sentence,
    )


def _dropwizard(seen: AdviceInput) -> Iterator[CapacityAdvice]:
    if seen.setting(configuration.METRICS) == "true":
        reason = "Spark registers Dropwizard gauges of each query, which the agent reports as well."
        todo = "Set it to false unless something else reads them."
        yield CapacityAdvice(configuration.METRICS, "true", todo, reason)


CHECKS: tuple[Callable[[AdviceInput], Iterator[CapacityAdvice]], ...] = (
    _partitions,
    _rate_limit,
    _no_rate_limit,
    _trigger,
    _changelog,
    _rocksdb_memory,
    _heap,
    _locality,
    _skew,
    _dropwizard,
)
