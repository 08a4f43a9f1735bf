"""Stop a run, if possible between two batches, and report what it did with the last batch.

Spark cannot stop between batches: `stop()` cancels the running batch. A query with a backlog and no pause in
its trigger begins the next batch at once. There the best moment is the report of a commit: a stop right after
it loses at most the planning of the next batch. Used by `listeners.commands.executor`.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from listeners.protocol.errors import AgentError, CommandError
from listeners.queries.registry import RegisteredQuery, Registry
from listeners.spark.engine import SparkRun

#: How often a drain checks whether the query is between two batches.
POLL_SECONDS = 0.02
#: Maximum share of a stop's timeout for the drain.
DRAIN_SHARE = 0.5
MIN_STOP_SECONDS = 1.0

GAP, COMMIT, DEADLINE, EPOCHS = "gap", "commit", "deadline", "epochs"


class StopResult(NamedTuple):
    """Result of a stop. `moment`: `gap`, `commit`, `deadline` or `epochs` for a drain, else None.

    `planned`, `committed`: the newest batches in the logs, None if unknown or none yet.
    """

    moment: str | None
    seconds: float
    planned: int | None
    committed: int | None
    continuous: bool = False

    @property
    def cut(self) -> int | None:
        """The batch that had begun and will run again; None if there is none."""
        if self.continuous or self.planned is None:
            return None
        return self.planned if self.committed is None or self.planned > self.committed else None


def stop_run(registry: Registry, entry: RegisteredQuery, drain: bool, timeout: float) -> StopResult:
    """Stop the query's run and hold its waiters. CommandError `stop_timed_out` if it does not end in time.

    Refused with `not_running` if the run ended by itself meanwhile: the program must see that end. An error
    of `stop()` itself is raised; then the query keeps running and its waiters are released.
    """
    began = time.monotonic()
    run = entry.run
    continuous = run.facts().get("trigger") == "continuous"
    # Hold the waiters only from just before the stop: an earlier end would be the query's own.
    moment = None
    if drain:
        moment = EPOCHS if continuous else _drain(registry, entry, began + timeout * DRAIN_SHARE)
    registry.hold(entry)
    try:
        is_over = _stop_and_check(run, max(MIN_STOP_SECONDS, began + timeout - time.monotonic()))
    except BaseException:
        registry.release(entry)  # its waiters see what Spark reports
        raise
    if not is_over:
        raise CommandError(  # keep holding: whenever the stop takes effect, the command caused it
            "stop_timed_out",
            f"the query did not end within {timeout:.0f} s; the stop is still in progress",
            evidence={"previous_run_id": entry.run_id, "thread": run.thread()},
        )
    seconds = time.monotonic() - began
    return StopResult(moment, seconds, *run.batches_on_record(), continuous)


def _stop_and_check(run: SparkRun, seconds: float) -> bool:
    """Stop an active run; whether it ended in time. Raises if, as far as Spark reports, no stop has begun."""
    if not run.is_active():
        raise CommandError("not_running", "the query ended by itself before it was stopped", refused=True)
    failure = _stop_within(run, seconds)
    try:
        if run.is_over():
            return True
        if failure is None or not run.is_active():
            return False
    except AgentError:
        if failure is None:  # Spark accepted the stop, and its result cannot be read
            return False
    raise failure


def _drain(registry: Registry, entry: RegisteredQuery, deadline: float) -> str:
    """Wait for a moment between batches, at most until `deadline` (monotonic); return which moment it is."""
    run = entry.run
    commit = registry.await_batch(entry, after=run.batches_on_record()[1])
    try:
        while time.monotonic() < deadline:
            if commit.wait(POLL_SECONDS):
                return COMMIT
            if not run.status().trigger_active:
                return GAP
        return DEADLINE
    finally:
        registry.await_no_batch(entry)


def _stop_within(run: SparkRun, seconds: float) -> BaseException | None:
    """Call `stop()` on another thread, as it may block forever (SPARK-30143). Return what it raised."""
    raised: list[BaseException] = []

    def stop() -> None:
        try:
            run.stop()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=stop, name="controlplane-stop", daemon=True)
    thread.start()
    thread.join(seconds)
    return raised[0] if raised else None


def stop_unwanted(run: SparkRun, seconds: float = 30.0) -> None:
    """Stop a run that should not have started, waiting at most `seconds`."""
    _stop_within(run, seconds)


def stop_evidence(entry_run_id: str, stopped: StopResult) -> dict[str, Any]:
    """The stop in numbers, as evidence of a command's result."""
    found: dict[str, Any] = {
        "previous_run_id": entry_run_id,
        "stopped_in_seconds": round(stopped.seconds, 3),
        "planned_batch": stopped.planned,
        "committed_batch": stopped.committed,
        "cut_batch": stopped.cut,
    }
    if stopped.moment is not None:
        found["drained"] = _is_drained(stopped)
        found["stopped_at"] = stopped.moment
    return found


def _is_drained(stopped: StopResult) -> bool | None:
    """Whether no batch was cut; None if unknown (Connect does not show the logs)."""
    if stopped.moment == COMMIT and stopped.planned is None:
        return None
    return stopped.moment in (GAP, COMMIT) and stopped.cut is None


def describe_stop(stopped: StopResult) -> str:
    """What the stop did to the last batch, as a sentence for people."""
    if stopped.continuous:
        return _epochs_sentence(stopped)
    if stopped.cut is not None:
        return _CUTS[stopped.moment].format(cut=stopped.cut, last=stopped.cut - 1)
    if stopped.committed is None:
        return _UNKNOWN[stopped.moment]
    return f"stopped after batch {stopped.committed}"


_UNKNOWN = {
    None: "stopped; its last batch is not known",
    GAP: "stopped between two batches",
    COMMIT: "stopped right after a batch; if the next one had begun, it will run again",
    DEADLINE: "stopped in the middle of a batch: the drain timed out",
}
_CUTS = {
    None: "stopped in the middle of batch {cut}, which will run again",
    GAP: "stopped as batch {cut} began, which will run again",
    COMMIT: (
        "stopped right after batch {last}; there is no pause between its batches, so batch {cut} had been "
        "planned and will run again"
    ),
    DEADLINE: ("stopped in the middle of batch {cut}, which will run again: the drain timed out"),
}


def _epochs_sentence(stopped: StopResult) -> str:
    last = "before its first epoch ended" if stopped.committed is None else f"after epoch {stopped.committed}"
    drained = " (continuous processing cannot be drained)" if stopped.moment == EPOCHS else ""
    return f"stopped {last}{drained}; rows written since then will be written again"
