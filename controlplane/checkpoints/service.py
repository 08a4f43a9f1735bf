"""Checkpoint service of the server: analyzes received inventories, compares shapes, and requests new inventories.

Called by ingest after each commit, by the API, by the actions service before a start, and by the scheduler's
tick. Analysis runs on the service's own threads; results go to the store and the window.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection

from controlplane.actions.outbox import Outbox
from controlplane.checkpoints import known_history
from controlplane.checkpoints.changes import ChangeService
from controlplane.checkpoints.coalescing_queue import CoalescingQueue
from controlplane.checkpoints.inspections import Inspections
from controlplane.checkpoints.inventory import roots
from controlplane.checkpoints.inventory.collector import CannotOpen, collect
from controlplane.checkpoints.inventory.model import Inventory, NotAnInventory, to_json
from controlplane.checkpoints.inventory_events import (
    ReceivedInventory,
    normalized_path,
    received_inventory,
    received_logs,
    shapes_in_status,
    survey_from,
    without_state_rows,
)
from controlplane.checkpoints.inventory_requests import (
    REQUEST_TIMEOUT_SECONDS,
    InventoryRequest,
    InventoryRequests,
)
from controlplane.checkpoints.reading.versions import SparkVersion, parse_version
from controlplane.checkpoints.report import build_report, checkpoint_seen, unreadable_report
from controlplane.errors import Conflict, Forbidden, NotFound
from controlplane.events.progress import mapping
from controlplane.events.window import Window
from controlplane.health.checkpoint_verdict import contradicts
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, ActionState, CheckpointLogs, QueryView
from controlplane.shapes.report import UNKNOWN, comparison_document, disallowed_change
from controlplane.store import checkpoints as rows
from controlplane.store import shapes as shape_rows
from controlplane.store.shapes import ShapeOwner
from controlplane.store.writer import Writer
from listeners.protocol.wire import CommandResult, Event

log = logging.getLogger(__name__)
MAX_WAITING, MAX_WEIGHT = 500, 96 << 20
MAX_SHAPES = 5_000
MAX_COLLECTIONS = 20
#: Time for one listing by the server; requests wait a little longer.
COLLECT_SECONDS = 12.0
INVENTORY = "inventory"
LOGS = "checkpoint_logs"
#: Minimum time between inventories that are requested because logs and reports contradict each other.
CONTRADICTION_SECONDS = 600.0
Reading = Callable[[], AbstractContextManager[Connection]]


class CheckpointService:
    """Use between `start` and `stop`, with `changes` set. `listeners` are called with the query id when a request ends.

    allowed: the checkpoint roots below which the server may read checkpoints itself.
    """

    def __init__(
        self,
        writer: Writer,
        window: Window,
        outbox: Outbox,
        reading: Reading,
        clock: Callable[[], float],
        allowed: tuple[str, ...] = (),
    ):
        self._writer, self._window, self._outbox = writer, window, outbox
        self._reading, self._clock, self._allowed = reading, clock, allowed
        self._analysis_queue = CoalescingQueue("checkpoint-analyzer", MAX_WAITING, MAX_WEIGHT)
        self._shape_queue = CoalescingQueue("shape-comparison", MAX_SHAPES, MAX_WEIGHT)
        self._collection_queue = CoalescingQueue("checkpoint-collector", MAX_COLLECTIONS, MAX_WEIGHT)
        self._requests = InventoryRequests(self._request_ended)
        self._inspections = Inspections()
        self.changes: ChangeService
        self.listeners: list[Callable[[str], None]] = []
        #: Seconds that the last analysis took; None before the first.
        self.judge_seconds: float | None = None

    def load(self, connection: Connection, since: float = 0.0) -> float:
        """Put the reports made after `since` (Unix seconds) into the window; returns the time of the newest one."""
        for query_id, judgement in rows.latest_reports(connection, since).items():
            self._window.set_checkpoint(query_id, checkpoint_seen(judgement, judgement["taken_at"]))
            since = max(since, judgement["analyzed_at"])
        for query_id, run_id, comparison in shape_rows.newest_comparisons(connection):
            self._set_change(query_id, run_id, comparison)
        return since

    def start(self) -> None:
        """Start the worker threads."""
        for queue in (self._analysis_queue, self._shape_queue, self._collection_queue):
            queue.start()
        self.changes.start()

    def stop(self) -> None:
        """Stop the worker threads; queued work is dropped."""
        self.changes.stop()
        for queue in (self._collection_queue, self._shape_queue, self._analysis_queue):
            queue.stop()

    # -- received inventories -----------------------------------------------------------------------------------

    def on_events(self, events: Sequence[Event]) -> None:
        """Queue the inventories and shapes in committed events. Returns immediately."""
        for event in events:
            if event.type == INVENTORY:
                self._requests.agent_answered(event.agent)
                self._receive(received_inventory(event))
            elif event.type == LOGS:
                self._set_logs(*received_logs(event))
            elif event.type == "status":
                for whose, shape in shapes_in_status(event):
                    self._shape_queue.put(whose.run_id, partial(self._compare, whose, shape), len(str(shape)))

    def _set_logs(self, query_id: str, logs: CheckpointLogs) -> None:
        """Keep a reading of a running query's logs; request an inventory where it contradicts the reports."""
        view = self._window.view(query_id)
        seen = view.checkpoint if view is not None else None
        if view is None or seen is None or logs.at <= seen.taken_at:
            return
        self._window.set_checkpoint(query_id, replace(seen, logs=logs))
        if contradicts(view, logs) and logs.at - seen.taken_at > CONTRADICTION_SECONDS:
            with suppress(Conflict):
                self.request(view)

    def _receive(self, received: ReceivedInventory) -> None:
        if self._window.view(received.query_id) is None:
            log.info("dropped an inventory of query %s: no agent has reported this query", received.query_id)
        else:
            self._enqueue(received)

    def _enqueue(self, received: ReceivedInventory) -> None:
        if not self._analysis_queue.put(received.query_id, partial(self._analyze, received), received.weight):
            log.warning("dropped an inventory of query %s: the analysis queue is full", received.query_id)
            self._requests.failed(
                received.query_id, "this server has too many inventories to analyze; try again later"
            )

    def _analyze(self, received: ReceivedInventory) -> None:
        began = time.perf_counter()
        try:
            document = self._report_of(received)
        except Exception:
            log.exception("analysis of an inventory of query %s failed", received.query_id)
            document = unreadable_report("internal error; see the server log", received.root)
        self.judge_seconds = time.perf_counter() - began
        self._store(received, document)

    def _report_of(self, received: ReceivedInventory) -> dict[str, Any]:
        try:
            survey = survey_from(received)
        except NotAnInventory as error:
            return unreadable_report(str(error), received.root)
        with self._reading() as conn:
            history = known_history.load_history(
                conn, received.query_id, received.run_id, received.root, received.taken_at
            )
        return build_report(survey, _version(received.spark_version), history)

    def _store(self, received: ReceivedInventory, document: dict[str, Any]) -> None:
        collector = str(mapping(received.inventory).get("collector") or "")[:200]
        context = {"run_id": received.run_id, "why": received.why, "collector": collector}
        judgement = {**document, **context, "judge_seconds": self.judge_seconds}
        header = {name: judgement.get(name) for name in ("files", "bytes", "why", "collector")}
        packed = rows.pack({"checkpoint": without_state_rows(received.inventory), "output": received.output})
        taken = rows.StoredInventory(
            received.query_id, received.run_id, received.root, received.taken_at, header, packed
        )
        now, seen = self._clock(), checkpoint_seen(judgement, received.taken_at)
        self._writer.write(
            lambda conn: rows.query_exists(conn, received.query_id) and rows.put(conn, taken, now, judgement),
            lambda newest: self._window.set_checkpoint(received.query_id, seen) if newest else None,
        )
        self._requests.completed(received.query_id, received.taken_at)
        self._recheck_if_broken(received, document)

    def _recheck_if_broken(self, received: ReceivedInventory, document: dict[str, Any]) -> None:
        """Request another inventory where an unrequested one of a running query looks broken: it may be inconsistent."""
        view = self._window.view(received.query_id)
        runs = view is not None and view.run is not None and view.run.ended_at is None
        if view is not None and runs and document["verdict"] == "broken" and received.why == "started":
            try:
                self.request(view)
            except Conflict as error:
                log.info(
                    "the checkpoint of query %s looks broken and cannot be checked again: %s",
                    received.query_id,
                    error,
                )

    # -- shapes --------------------------------------------------------------------------------------

    def _compare(self, whose: ShapeOwner, shape: Mapping[str, Any]) -> None:
        with self._reading() as conn:
            if shape_rows.of_run(conn, whose.run_id) is not None:
                return
            before = shape_rows.baseline(conn, whose)
        comparison = self._comparison(before, shape)
        self._writer.write(
            lambda conn: shape_rows.put(conn, whose, shape, comparison),
            lambda stored: self._set_change(whose.query_id, whose.run_id, comparison),
        )
        if comparison is not None and comparison["verdict"] == "not_allowed":
            log.warning(
                "run %s of query %s has a change that its checkpoint does not allow",
                whose.run_id,
                whose.query_id,
            )

    def _set_change(self, query_id: str, run_id: str, comparison: Mapping[str, Any] | None) -> None:
        change = disallowed_change(run_id, comparison)
        if change is not None:
            self._window.set_change(query_id, change)

    def _comparison(
        self, before: Mapping[str, Any] | None, shape: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        if before is None:
            return None
        return {
            **comparison_document(before["shape"], shape),
            "previous_run_id": before["run_id"],
            "compared_at": self._clock(),
        }

    def preflight(self, whose: ShapeOwner, shape: dict[str, Any], bound: bool) -> dict[str, Any]:
        """Compare the shape of a query about to start with the baseline; `unknown` where there is none.

        `bound`: the caller's token is bound to its own app.
        """
        with self._reading() as conn:
            before = shape_rows.baseline(conn, replace(whose, checkpoint=normalized_path(whose.checkpoint)))
        if before is None or (bound and before["app"] != whose.app):
            return {"verdict": UNKNOWN, "effect": UNKNOWN, "findings": [], "against": None}
        return {
            **comparison_document(before["shape"], shape),
            "against": {"run_id": before["run_id"], "at": before["at"]},
        }

    # -- requests for inventories ---------------------------------------------------------------------

    def pending_request(self, query_id: str) -> InventoryRequest | None:
        """The open request of a query; None where there is none."""
        return self._requests.of(query_id)

    def trouble(self, query_id: str) -> str | None:
        """Why the last request of a query failed; None where it did not."""
        return self._requests.trouble(query_id)

    def request_before_start(self, view: QueryView) -> None:
        """Request an inventory that a start waits for. Raises Conflict where none can be expected."""
        if view.agent is None or not self._requests.is_unresponsive(view.agent.agent):
            self.request(view)
        elif not self._collects(view):
            raise Conflict("its agent did not answer the last request", code="cannot_look")

    def request(self, view: QueryView) -> str:
        """Request an inventory from the `agent`, else from this `server`; returns which. Raises Conflict where neither can.

        Returns immediately without calling a file system: a hanging one must not block the caller, which may
        be the store's only writer. Whether a local path lies outside the roots is therefore decided on the
        collection queue.
        """
        known = self._requests.of(view.query_id)
        if known is not None:
            return known.by
        now, agent = self._clock(), view.agent
        if (
            agent is not None
            and agent.ended_at is None
            and now - agent.last_contact_at <= DEFAULTS.unresponsive_seconds
        ):
            request = InventoryRequest(str(uuid.uuid4()), view.query_id, "agent", now, agent.agent, agent.app)
            if self._requests.begin(request) is request:
                self._outbox.put(_command(request, ActionState.REQUESTED))
            return "agent"
        return self._collect(view, now)

    def _collects(self, view: QueryView | None) -> bool:
        """Whether this server collects the inventory itself, for an agent that does not."""
        try:
            return view is not None and bool(self._collect(view, self._clock()))
        except Conflict:
            return False

    def _collect(self, view: QueryView, now: float) -> str:
        path = view.facts.checkpoint or (view.checkpoint.checkpoint if view.checkpoint else None)
        gone = "it has no agent" if view.agent is None else "its agent is not connected"
        if not path:
            raise Conflict(f"{gone}, and the place of its checkpoint is not known", code="cannot_look")
        refusal = roots.refused_by_name(path, self._allowed)
        if refusal is not None:
            raise Conflict(f"{gone}, and {refusal}", code="cannot_look")
        request = self._requests.begin(InventoryRequest(str(uuid.uuid4()), view.query_id, "server", now))
        if not self._collection_queue.put(view.query_id, partial(self._collected, view, path, now)):
            self._requests.failed(view.query_id, "this server has too many checkpoints to read")
            raise Conflict("this server has too many checkpoints to read; try again later", code="busy")
        return request.by

    def _collected(self, view: QueryView, path: str, now: float) -> None:
        try:
            held = self._collect_within_roots(path, now)
        except (CannotOpen, OSError, ValueError) as error:
            self._requests.failed(view.query_id, f"this server cannot read it: {error}")
            return
        document = to_json(replace(held, root=path, collector=f"server, {held.collector}"))
        version = view.agent.spark_version if view.agent else None
        run_id = view.run.run_id if view.run else None
        self._enqueue(ReceivedInventory(view.query_id, run_id, now, "asked", version, document, None))

    def _collect_within_roots(self, path: str, now: float) -> Inventory:
        """Collect below the allowed roots. Links are resolved once, as they may change at any moment."""
        place = roots.resolved(path)
        refusal = roots.refusal(place, self._allowed)
        if refusal is not None:
            raise CannotOpen(refusal)
        held = collect(place, now, links=False, seconds=COLLECT_SECONDS)
        if roots.resolved(place) != place:
            raise CannotOpen("it was replaced by a link during the listing")
        return held

    def is_inventory_command(self, id: str) -> bool:
        """Whether this command id is of an inventory request."""
        return self._requests.by_id(id) is not None

    def answer(self, id: str, result: CommandResult, app: str | None) -> Action:
        """Record an agent's result of an inventory command; the inventory itself arrives as an event.

        Raises NotFound for an unknown command, Forbidden for a token bound to another app.
        """
        request = self._requests.by_id(id)
        if request is None:
            raise NotFound(f"there is no command {id}")
        if app not in (None, request.app):
            raise Forbidden(f"this token is bound to the app {app}")
        if request.agent is not None:
            self._requests.agent_answered(request.agent)
        unavailable = result.state in ("refused", "failed") and self._requests.of(request.query_id) is request
        if unavailable and not self._collects(self._window.view(request.query_id)):
            self._requests.failed(
                request.query_id, result.reason or f"its agent {result.state} it ({result.code})"
            )
        done = result.state != "running"
        command = _command(request, ActionState(result.state) if done else ActionState.RUNNING)
        self._outbox.put(command)
        return command

    def _request_ended(self, request: InventoryRequest) -> None:
        if request.agent is not None:
            self._outbox.put(_command(request, ActionState.EXPIRED))
        for listener in self.listeners:
            listener(request.query_id)

    def tick(self) -> None:
        """End the requests that timed out, and request inventories of outdated checkpoints."""
        now = self._clock()
        self._requests.tick(now)
        for view in self._inspections.due(self._window.fleet, now):
            with suppress(Conflict):
                self.request(view)


def _command(request: InventoryRequest, state: ActionState) -> Action:
    """A request as a command for the outbox; it is not recorded as an action because it changes nothing."""
    return Action(
        id=request.id,
        query_id=request.query_id,
        app=request.app,
        name=None,
        action=INVENTORY,
        actor="server",
        state=state,
        requested_at=request.requested_at,
        deadline_at=request.requested_at + REQUEST_TIMEOUT_SECONDS,
        agent=request.agent,
    )


def _version(text: str | None) -> SparkVersion | None:
    try:
        return parse_version(text) if text else None
    except ValueError:
        return None
