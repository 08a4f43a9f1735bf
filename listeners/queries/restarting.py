"""Whether and how a query can be started again: by its recorded start, by a factory, or not at all.

The command executor and the status report use the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from listeners.queries.registry import RegisteredQuery, Registry
from listeners.spark import classic  # only for its path rules
from listeners.spark.connect.pipelines import runs_pipeline
from listeners.spark.engine import Start


class RestartMethod(NamedTuple):
    """`how`: `reuse`, `factory` or `needs_factory`. `code` is that of the refusal, empty if there is none."""

    how: str
    code: str
    reason: str


REUSE = RestartMethod("reuse", "", "the recorded start can be repeated")
FACTORY = RestartMethod("factory", "", "a factory is registered for this query")
START_NOT_SEEN = RestartMethod(
    "needs_factory", "needs_factory", "the agent did not see its start; register a factory for this query"
)
PIPELINE_FLOW = RestartMethod(
    "needs_factory",
    "pipeline_flow",
    "it is a flow of a declarative pipeline, which starts and ends its flows itself: end `spark-pipelines run`, or "
    "run it again",
)
WRITER_CHANGED = RestartMethod(
    "needs_factory",
    "needs_factory",
    "its writer has been configured or started again since then; register a factory for this query",
)
TEMPORARY_CHECKPOINT = RestartMethod(
    "needs_factory",
    "temporary_checkpoint",
    "the query has no checkpointLocation, so a restart would begin from scratch; set one in the program",
)
MADE_UP_CHECKPOINT = RestartMethod(
    "needs_factory",
    "temporary_checkpoint",
    "the query has neither a name nor a checkpointLocation of its own, so Spark starts it in a new directory each "
    "time and a restart would begin from scratch; set one of them in the program",
)
#: Source: Spark's ResolveWriteToStream. A memory sink can resume only where it holds the whole result.
NOT_RESUMABLE = RestartMethod(
    "needs_factory",
    "cannot_resume",
    "Spark resumes a memory sink from its checkpoint only in complete mode; write to another sink",
)
#: Source: Spark's TextSocketMicroBatchStream, which counts from 0 again in each run.
SOCKET = RestartMethod(
    "needs_factory",
    "cannot_resume",
    "Spark's socket source cannot resume from a checkpoint: a new run fails with `Offsets committed out of order`; "
    "read from a source that keeps its data, such as files or Kafka",
)
CHECKPOINT_UNKNOWN = RestartMethod(
    "needs_factory",
    "needs_factory",
    "Spark does not report its checkpoint; register a factory for this query",
)


def restart_method(
    registry: Registry,
    entry: RegisteredQuery | None,
    name: str | None,
    facts: Mapping[str, Any] | None = None,
) -> RestartMethod:
    """How the query called `name` can be started again: `reuse` only if that surely resumes the same query.

    `facts` are those of its run, where they are available.

    Sources: a writer is mutable and starts what it was configured for last. It keeps the static DataFrames it
    was built with. Without a checkpoint of its own a query begins from scratch.
    """
    if entry is not None and entry.start is not None and _reads_a_socket(entry.start):
        return SOCKET  # first: a checkpointLocation would not help
    checkpoint = entry.run.checkpoint() if entry is not None else None
    if checkpoint and classic.is_temporary(checkpoint):
        return TEMPORARY_CHECKPOINT  # a factory would start a different query, too
    if entry is not None:
        known = entry.run.facts() if facts is None else facts
        if known.get("checkpointIsMadeUp"):
            return MADE_UP_CHECKPOINT
        if _is_not_resumable(known):
            return NOT_RESUMABLE
    if registry.factory(name) is not None:
        return FACTORY
    if entry is None or entry.start is None:
        return PIPELINE_FLOW if runs_pipeline() else START_NOT_SEEN
    if registry.generation(entry.start.writer) != entry.start.generation:
        return WRITER_CHANGED
    if not checkpoint:
        return CHECKPOINT_UNKNOWN
    return _unless_static(entry.start)


def _is_not_resumable(facts: Mapping[str, Any]) -> bool:
    return facts.get("sink") in ("MemorySink", "memory") and facts.get("outputMode") != "complete"


def _reads_a_socket(start: Start) -> bool:
    return "socket" in (name.lower() for name in start.engine.stream_formats(start.writer))


def _unless_static(start: Start) -> RestartMethod:
    static_inputs = sorted(set(start.engine.static_leaves(start.writer)))
    if not static_inputs:
        return REUSE
    reason = (
        f"it joins or unions static data ({', '.join(static_inputs)}), which its writer would keep as of "
        "the first start; register a factory that rebuilds the query"
    )
    return RestartMethod("needs_factory", "needs_factory", reason)
