"""The doctor in the server: takes inventories and shapes in, has them judged on a thread of its own, asks for new ones.

Called by ingest after each commit, by the API, by the control room before a restart and by the scheduler's tick;
the window and the store follow what it finds.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection

from controlplane.actions.outbox import Outbox
from controlplane.checkpoints import known_history
from controlplane.checkpoints.coalescing_queue import CoalescingQueue
from controlplane.checkpoints.inventory import roots
from controlplane.checkpoints.inventory.collector import CannotOpen, collect
from controlplane.checkpoints.inventory.model import Inventory, NotAnInventory, to_json
from controlplane.checkpoints.inventory_events import (
    ReceivedInventory,
    normalized_path,
    received_inventory,
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
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, ActionState, QueryView
from controlplane.shapes.report import UNKNOWN, comparison_document
from controlplane.store import checkpoints as rows
from controlplane.store import shapes as shape_rows
from controlplane.store.shapes import ShapeOwner
from controlplane.store.writer import Writer
from listeners.protocol.wire import CommandResult, Event

log = logging.getLogger(__name__)
MAX_WAITING, MAX_WEIGHT = 500, 96 << 20
MAX_SHAPES = 5_000
MAX_COLLECTIONS = 20
COLLECT_SECONDS = 12.0  # of listing; whoever asked waits a little longer
INVENTORY = "inventory"
Reading = Callable[[], AbstractContextManager[Connection]]


class CheckpointService:
    """`start` before use, `stop` after. `listeners` are told the id of a query that was looked at, or could not be."""

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
        self._analysis_queue = CoalescingQueue("checkpoint-judge", MAX_WAITING, MAX_WEIGHT)
        self._shape_queue = CoalescingQueue("shape-judge", MAX_SHAPES, MAX_WEIGHT)
        self._collection_queue = CoalescingQueue("checkpoint-collector", MAX_COLLECTIONS, MAX_WEIGHT)
        self._requests = InventoryRequests(self._request_ended)
        self.listeners: list[Callable[[str], None]] = []
        #: Seconds that the last inventory took to judge; None before the first.
        self.judge_seconds: float | None = None

    def load(self, connection: Connection) -> None:
        """What was known when the server ended."""
        for query_id, judgement in rows.latest_reports(connection).items():
            self._window.set_checkpoint(query_id, checkpoint_seen(judgement, judgement["taken_at"]))

    def start(self) -> None:
        for queue in (self._analysis_queue, self._shape_queue, self._collection_queue):
            queue.start()

    def stop(self) -> None:
        for queue in (self._collection_queue, self._shape_queue, self._analysis_queue):
            queue.stop()

    # -- taking in -----------------------------------------------------------------------------------

    def on_events(self, events: Sequence[Event]) -> None:
        """Events were committed. Returns at once: the work is done on threads of its own."""
        for event in events:
            if event.type == INVENTORY:
                self._requests.agent_answered(event.agent)
                self._receive(received_inventory(event))
            elif event.type == "status":
                for whose, shape in shapes_in_status(event):
                    self._shape_queue.put(whose.run_id, partial(self._compare, whose, shape), len(str(shape)))

    def _receive(self, received: ReceivedInventory) -> None:
        if self._window.view(received.query_id) is None:
            log.info("an inventory of %s was not kept: no agent has told of this query", received.query_id)
        else:
            self._enqueue(received)

    def _enqueue(self, received: ReceivedInventory) -> None:
        if not self._analysis_queue.put(received.query_id, partial(self._analyze, received), received.weight):
            log.warning("an inventory of %s was not judged: too many wait", received.query_id)
            self._requests.failed(
                received.query_id, "this server has too many inventories to judge; ask again later"
            )

    def _analyze(self, received: ReceivedInventory) -> None:
        began = time.perf_counter()
        try:
            document = self._report_of(received)
        except Exception:
            log.exception("the doctor failed on an inventory of %s", received.query_id)
            document = unreadable_report("the doctor failed on it; the server's log says why", received.root)
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
        told = {"run_id": received.run_id, "why": received.why, "collector": collector}
        judgement = {**document, **told, "judge_seconds": self.judge_seconds}
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
        """A listing of a query that runs may be torn: what an unasked one finds broken is looked at once more."""
        view = self._window.view(received.query_id)
        runs = view is not None and view.run is not None and view.run.ended_at is None
        if view is not None and runs and document["verdict"] == "broken" and received.why == "started":
            try:
                self.request(view)
            except Conflict as error:
                log.info("%s was found broken and cannot be looked at again: %s", received.query_id, error)

    # -- shapes --------------------------------------------------------------------------------------

    def _compare(self, whose: ShapeOwner, shape: Mapping[str, Any]) -> None:
        with self._reading() as conn:
            if shape_rows.of_run(conn, whose.run_id) is not None:
                return
            before = shape_rows.previous(conn, whose)
        comparison = self._comparison(before, shape)
        self._writer.write(lambda conn: shape_rows.put(conn, whose, shape, comparison))
        if comparison is not None and comparison["verdict"] == "not_allowed":
            log.warning(
                "run %s of %s changed what its checkpoint does not allow", whose.run_id, whose.query_id
            )

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
        """How a shape that is to start compares with the last run's; *unknown* where there was none.

        `bound`: who asks may know of its own app only.
        """
        with self._reading() as conn:
            before = shape_rows.previous(conn, replace(whose, checkpoint=normalized_path(whose.checkpoint)))
        if before is None or (bound and before["app"] != whose.app):
            return {"verdict": UNKNOWN, "effect": UNKNOWN, "findings": [], "against": None}
        return {
            **comparison_document(before["shape"], shape),
            "against": {"run_id": before["run_id"], "at": before["at"]},
        }

    # -- asking for an inventory ---------------------------------------------------------------------

    def pending_request(self, query_id: str) -> InventoryRequest | None:
        """The inventory that was asked for and has not come."""
        return self._requests.of(query_id)

    def trouble(self, query_id: str) -> str | None:
        return self._requests.trouble(query_id)

    def request_before_start(self, view: QueryView) -> None:
        """Ask for an inventory that a start will wait for. Conflict where none is to be hoped for."""
        if view.agent is not None and self._requests.is_unresponsive(view.agent.agent):
            raise Conflict("its agent did not answer the last time", code="cannot_look")
        self.request(view)

    def request(self, view: QueryView) -> str:
        """Ask for an inventory: of the `agent`, else of this `server`. Conflict says why nobody can.

        Returns at once and asks no file system: one that hangs must not hold who asks, which may be the store's
        only writer. So it is on the lane that a local path turns out to lie outside the roots.
        """
        known = self._requests.of(view.query_id)
        if known is not None:
            return known.by
        now, agent = self._clock(), view.agent
        if (
            agent is not None
            and agent.ended_at is None
            and now - agent.last_seen_at <= DEFAULTS.unresponsive_seconds
        ):
            request = InventoryRequest(str(uuid.uuid4()), view.query_id, "agent", now, agent.agent, agent.app)
            if self._requests.begin(request) is request:
                self._outbox.put(_command(request, ActionState.REQUESTED))
            return "agent"
        return self._collect(view, now)

    def _collect(self, view: QueryView, now: float) -> str:
        path = view.facts.checkpoint or (view.checkpoint.checkpoint if view.checkpoint else None)
        gone = "no agent is there to look" if view.agent is None else "its agent is gone"
        if not path:
            raise Conflict(f"{gone}, and where its checkpoint is nobody has told", code="cannot_look")
        refusal = roots.refused_by_name(path, self._allowed)
        if refusal is not None:
            raise Conflict(f"{gone}, and {refusal}", code="cannot_look")
        request = self._requests.begin(InventoryRequest(str(uuid.uuid4()), view.query_id, "server", now))
        if not self._collection_queue.put(view.query_id, partial(self._collected, view, path, now)):
            self._requests.failed(view.query_id, "this server has too many checkpoints to look at")
            raise Conflict("this server has too many checkpoints to look at; ask again later", code="busy")
        return request.by

    def _collected(self, view: QueryView, path: str, now: float) -> None:
        try:
            held = self._collect_within_roots(path, now)
        except (CannotOpen, OSError, ValueError) as error:
            self._requests.failed(view.query_id, f"this server cannot look at it: {error}")
            return
        document = to_json(replace(held, root=path, collector=f"server, {held.collector}"))
        version = view.agent.spark_version if view.agent else None
        run_id = view.run.run_id if view.run else None
        self._enqueue(ReceivedInventory(view.query_id, run_id, now, "asked", version, document, None))

    def _collect_within_roots(self, path: str, now: float) -> Inventory:
        """Links are followed once, and what they led to is checked and looked at: they may change at any moment."""
        place = roots.resolved(path)
        refusal = roots.refusal(place, self._allowed)
        if refusal is not None:
            raise CannotOpen(refusal)
        held = collect(place, now, links=False, seconds=COLLECT_SECONDS)
        if roots.resolved(place) != place:
            raise CannotOpen("a link took its place while it was looked at")
        return held

    def is_inventory_command(self, id: str) -> bool:
        return self._requests.by_id(id) is not None

    def answer(self, id: str, result: CommandResult, app: str | None) -> Action:
        """An agent's result of such a command; its inventory comes as an event, before or after."""
        request = self._requests.by_id(id)
        if request is None:
            raise NotFound(f"there is no command {id}")
        if app not in (None, request.app):
            raise Forbidden(f"this token is bound to the app {app}")
        if request.agent is not None:
            self._requests.agent_answered(request.agent)
        if result.state in ("refused", "failed") and self._requests.of(request.query_id) is request:
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
        """Give up looks that took too long."""
        self._requests.tick(self._clock())


def _command(request: InventoryRequest, state: ActionState) -> Action:
    """A look as the outbox carries it; it is not on record, since it changes nothing."""
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
