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
from controlplane.checkpoints.arrivals import (
    Arrival,
    arrival,
    place,
    shapes_in,
    survey_of,
    without_rows,
)
from controlplane.checkpoints.coalescing_queue import CoalescingQueue
from controlplane.checkpoints.inventory import roots
from controlplane.checkpoints.inventory.collector import CannotOpen, collect
from controlplane.checkpoints.inventory.model import Inventory, NotAnInventory, to_json
from controlplane.checkpoints.inventory_requests import LOOK_SECONDS, InventoryRequest, InventoryRequests
from controlplane.checkpoints.reading.versions import SparkVersion, parse_version
from controlplane.checkpoints.report import judged, not_judged, seen_of
from controlplane.errors import Conflict, Forbidden, NotFound
from controlplane.events.progress import mapping
from controlplane.events.window import Window
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, ActionState, QueryView
from controlplane.shapes.report import UNKNOWN, compared
from controlplane.store import checkpoints as rows
from controlplane.store import shapes as shape_rows
from controlplane.store.shapes import Shaped
from controlplane.store.writer import Writer
from listeners.protocol.wire import CommandResult, Event

log = logging.getLogger(__name__)
MOST_WAITING, HEAVIEST = 500, 96 << 20
MOST_SHAPES = 5_000
MOST_COLLECTIONS = 20
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
        self._judging = CoalescingQueue("checkpoint-judge", MOST_WAITING, HEAVIEST)
        self._shaping = CoalescingQueue("shape-judge", MOST_SHAPES, HEAVIEST)
        self._collecting = CoalescingQueue("checkpoint-collector", MOST_COLLECTIONS, HEAVIEST)
        self._looks = InventoryRequests(self._look_ended)
        self.listeners: list[Callable[[str], None]] = []
        #: Seconds that the last inventory took to judge; None before the first.
        self.judge_seconds: float | None = None

    def load(self, connection: Connection) -> None:
        """What was known when the server ended."""
        for query_id, judgement in rows.judgements(connection).items():
            self._window.set_checkpoint(query_id, seen_of(judgement, judgement["taken_at"]))

    def start(self) -> None:
        for lane in (self._judging, self._shaping, self._collecting):
            lane.start()

    def stop(self) -> None:
        for lane in (self._collecting, self._shaping, self._judging):
            lane.stop()

    # -- taking in -----------------------------------------------------------------------------------

    def heard(self, events: Sequence[Event]) -> None:
        """Events were committed. Returns at once: the work is done on threads of its own."""
        for event in events:
            if event.type == INVENTORY:
                self._looks.spoke(event.agent)
                self._take(arrival(event))
            elif event.type == "status":
                for whose, shape in shapes_in(event):
                    self._shaping.put(whose.run_id, partial(self._compare, whose, shape), len(str(shape)))

    def _take(self, came: Arrival) -> None:
        if self._window.view(came.query_id) is None:
            log.info("an inventory of %s was not kept: no agent has told of this query", came.query_id)
        else:
            self._put(came)

    def _put(self, came: Arrival) -> None:
        if not self._judging.put(came.query_id, partial(self._judge, came), came.weight):
            log.warning("an inventory of %s was not judged: too many wait", came.query_id)
            self._looks.failed(
                came.query_id, "this server has too many inventories to judge; ask again later"
            )

    def _judge(self, came: Arrival) -> None:
        began = time.perf_counter()
        try:
            document = self._judged(came)
        except Exception:
            log.exception("the doctor failed on an inventory of %s", came.query_id)
            document = not_judged("the doctor failed on it; the server's log says why", came.root)
        self.judge_seconds = time.perf_counter() - began
        self._keep(came, document)

    def _judged(self, came: Arrival) -> dict[str, Any]:
        try:
            survey = survey_of(came)
        except NotAnInventory as error:
            return not_judged(str(error), came.root)
        with self._reading() as conn:
            history = known_history.recall(conn, came.query_id, came.run_id, came.root, came.taken_at)
        return judged(survey, _version(came.spark_version), history)

    def _keep(self, came: Arrival, document: dict[str, Any]) -> None:
        collector = str(mapping(came.inventory).get("collector") or "")[:200]
        told = {"run_id": came.run_id, "why": came.why, "collector": collector}
        judgement = {**document, **told, "judge_seconds": self.judge_seconds}
        header = {name: judgement.get(name) for name in ("files", "bytes", "why", "collector")}
        packed = rows.pack({"checkpoint": without_rows(came.inventory), "output": came.output})
        taken = rows.Taken(came.query_id, came.run_id, came.root, came.taken_at, header, packed)
        now, seen = self._clock(), seen_of(judgement, came.taken_at)
        self._writer.write(
            lambda conn: rows.is_known(conn, came.query_id) and rows.put(conn, taken, now, judgement),
            lambda newest: self._window.set_checkpoint(came.query_id, seen) if newest else None,
        )
        self._looks.came(came.query_id, came.taken_at)
        self._look_twice(came, document)

    def _look_twice(self, came: Arrival, document: dict[str, Any]) -> None:
        """A listing of a query that runs may be torn: what an unasked one finds broken is looked at once more."""
        view = self._window.view(came.query_id)
        runs = view is not None and view.run is not None and view.run.ended_at is None
        if view is not None and runs and document["verdict"] == "broken" and came.why == "started":
            try:
                self.request(view)
            except Conflict as error:
                log.info("%s was found broken and cannot be looked at again: %s", came.query_id, error)

    # -- shapes --------------------------------------------------------------------------------------

    def _compare(self, whose: Shaped, shape: Mapping[str, Any]) -> None:
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
            **compared(before["shape"], shape),
            "previous_run_id": before["run_id"],
            "compared_at": self._clock(),
        }

    def preflight(self, whose: Shaped, shape: dict[str, Any], bound: bool) -> dict[str, Any]:
        """How a shape that is to start compares with the last run's; *unknown* where there was none.

        `bound`: who asks may know of its own app only.
        """
        with self._reading() as conn:
            before = shape_rows.previous(conn, replace(whose, checkpoint=place(whose.checkpoint)))
        if before is None or (bound and before["app"] != whose.app):
            return {"verdict": UNKNOWN, "effect": UNKNOWN, "findings": [], "against": None}
        return {
            **compared(before["shape"], shape),
            "against": {"run_id": before["run_id"], "at": before["at"]},
        }

    # -- asking for an inventory ---------------------------------------------------------------------

    def looking(self, query_id: str) -> InventoryRequest | None:
        """The inventory that was asked for and has not come."""
        return self._looks.of(query_id)

    def trouble(self, query_id: str) -> str | None:
        return self._looks.trouble(query_id)

    def look_before_start(self, view: QueryView) -> None:
        """Ask for an inventory that a start will wait for. Conflict where none is to be hoped for."""
        if view.agent is not None and self._looks.is_mute(view.agent.agent):
            raise Conflict("its agent did not answer the last time", code="cannot_look")
        self.request(view)

    def request(self, view: QueryView) -> str:
        """Ask for an inventory: of the `agent`, else of this `server`. Conflict says why nobody can.

        Returns at once and asks no file system: one that hangs must not hold who asks, which may be the store's
        only writer. So it is on the lane that a local path turns out to lie outside the roots.
        """
        known = self._looks.of(view.query_id)
        if known is not None:
            return known.by
        now, agent = self._clock(), view.agent
        if (
            agent is not None
            and agent.ended_at is None
            and now - agent.last_seen_at <= DEFAULTS.unheard_seconds
        ):
            look = InventoryRequest(str(uuid.uuid4()), view.query_id, "agent", now, agent.agent, agent.app)
            if self._looks.begin(look) is look:
                self._outbox.put(_command(look, ActionState.REQUESTED))
            return "agent"
        return self._collect(view, now)

    def _collect(self, view: QueryView, now: float) -> str:
        path = view.facts.checkpoint or (view.checkpoint.checkpoint if view.checkpoint else None)
        gone = "no agent is there to look" if view.agent is None else "its agent is gone"
        if not path:
            raise Conflict(f"{gone}, and where its checkpoint is nobody has told", code="cannot_look")
        why_not = roots.refused_by_name(path, self._allowed)
        if why_not is not None:
            raise Conflict(f"{gone}, and {why_not}", code="cannot_look")
        look = self._looks.begin(InventoryRequest(str(uuid.uuid4()), view.query_id, "server", now))
        if not self._collecting.put(view.query_id, partial(self._collected, view, path, now)):
            self._looks.failed(view.query_id, "this server has too many checkpoints to look at")
            raise Conflict("this server has too many checkpoints to look at; ask again later", code="busy")
        return look.by

    def _collected(self, view: QueryView, path: str, now: float) -> None:
        try:
            held = self._held(path, now)
        except (CannotOpen, OSError, ValueError) as error:
            self._looks.failed(view.query_id, f"this server cannot look at it: {error}")
            return
        document = to_json(replace(held, root=path, collector=f"server, {held.collector}"))
        version = view.agent.spark_version if view.agent else None
        run_id = view.run.run_id if view.run else None
        self._put(Arrival(view.query_id, run_id, now, "asked", version, document, None))

    def _held(self, path: str, now: float) -> Inventory:
        """Links are followed once, and what they led to is checked and looked at: they may change at any moment."""
        place = roots.resolved(path)
        why_not = roots.refusal(place, self._allowed)
        if why_not is not None:
            raise CannotOpen(why_not)
        held = collect(place, now, links=False, seconds=COLLECT_SECONDS)
        if roots.resolved(place) != place:
            raise CannotOpen("a link took its place while it was looked at")
        return held

    def is_look(self, id: str) -> bool:
        return self._looks.by_id(id) is not None

    def answer(self, id: str, result: CommandResult, app: str | None) -> Action:
        """An agent's result of such a command; its inventory comes as an event, before or after."""
        look = self._looks.by_id(id)
        if look is None:
            raise NotFound(f"there is no command {id}")
        if app not in (None, look.app):
            raise Forbidden(f"this token is bound to the app {app}")
        if look.agent is not None:
            self._looks.spoke(look.agent)
        if result.state in ("refused", "failed") and self._looks.of(look.query_id) is look:
            self._looks.failed(look.query_id, result.reason or f"its agent {result.state} it ({result.code})")
        done = result.state != "running"
        command = _command(look, ActionState(result.state) if done else ActionState.RUNNING)
        self._outbox.put(command)
        return command

    def _look_ended(self, look: InventoryRequest) -> None:
        if look.agent is not None:
            self._outbox.put(_command(look, ActionState.EXPIRED))
        for listener in self.listeners:
            listener(look.query_id)

    def tick(self) -> None:
        """Give up looks that took too long."""
        self._looks.tick(self._clock())


def _command(look: InventoryRequest, state: ActionState) -> Action:
    """A look as the outbox carries it; it is not on record, since it changes nothing."""
    return Action(
        id=look.id,
        query_id=look.query_id,
        app=look.app,
        name=None,
        action=INVENTORY,
        actor="server",
        state=state,
        requested_at=look.asked_at,
        deadline_at=look.asked_at + LOOK_SECONDS,
        agent=look.agent,
    )


def _version(text: str | None) -> SparkVersion | None:
    try:
        return parse_version(text) if text else None
    except ValueError:
        return None
