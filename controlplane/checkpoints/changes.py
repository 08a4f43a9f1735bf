"""Rewinds, repairs and undos that the server carries out itself, each an action on record.

One at a time, on a thread of its own. While such an action is open, no other action on the query is accepted, so no
command starts the query. `controlplane.checkpoints.repair.change` does the work. Called by the API.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from controlplane.actions import guards
from controlplane.actions.guards import ActionRefusal
from controlplane.actions.service import ActionService
from controlplane.actions.transitions import ActionOutcome, NewAction, unfinished_change
from controlplane.checkpoints.findings import ReportStatus
from controlplane.checkpoints.inventory.collector import CannotOpen
from controlplane.checkpoints.repair import writer_detection
from controlplane.checkpoints.repair.change import ChangeControl, ChangeDone, WantedChange, carry_out
from controlplane.checkpoints.repair.errors import (
    InUse,
    RepairError,
    RepairInterrupted,
    RepairUnfinished,
)
from controlplane.checkpoints.repair.rooted_survey import QueryPlaces
from controlplane.checkpoints.report import summary
from controlplane.errors import Conflict, StoreUnavailable
from controlplane.events.window import Window
from controlplane.health.context import context_at
from controlplane.health.terminal_status import disappeared, lost_contact
from controlplane.health.thresholds import DEFAULTS
from controlplane.health.verdicts import VerdictLog
from controlplane.model import Action, ActionState, QueryView
from controlplane.settings import Settings

log = logging.getLogger(__name__)
OFF = "this server changes no checkpoints: start it with --checkpoint-changes, or run the command"


class ChangeService:
    """Use between `start` and `stop`. look_again: requests an inventory of a query's checkpoint; Conflict where none can be made."""

    def __init__(
        self,
        actions: ActionService,
        window: Window,
        verdicts: VerdictLog,
        look_again: Callable[[QueryView], object],
        settings: Settings,
        clock: Callable[[], float],
    ):
        self._actions, self._window, self._verdicts = actions, window, verdicts
        self._look_again, self._clock = look_again, clock
        self._allowed, self._enabled = settings.checkpoint_roots, settings.checkpoint_changes
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint changes")

    def start(self) -> None:
        """End what an earlier process has left open."""
        for action in self._actions.open_changes():
            self._actions.finish(action.id, unfinished_change(action))

    def stop(self) -> None:
        """End the changes: one that waits is not made, one that writes files is finished."""
        self._stopping.set()
        self._thread.shutdown(wait=True)

    def places(self, view: QueryView) -> QueryPlaces:
        """Where a query's checkpoint is; Conflict where that is not known."""
        place = view.facts.checkpoint or (view.checkpoint.checkpoint if view.checkpoint else None)
        if not place:
            raise Conflict("the place of its checkpoint is not known", code="cannot_look")
        return QueryPlaces(place, view.progress[-1].sink if view.progress else "", self._allowed)

    def refusal(self, view: QueryView) -> ActionRefusal | None:
        """Why this server would not change the query's checkpoint now."""
        if not self._enabled:
            return ActionRefusal("checkpoint_changes_off", OFF)
        now = self._clock()
        context = context_at(view, now, DEFAULTS)
        active = context.active and disappeared(context) is None
        rivals, lost = guards.living_rivals(view, now), lost_contact(context) is not None
        return guards.check_change(view, view.action, rivals, active, lost) or self._restarting(view, now)

    def _restarting(self, view: QueryView, now: float) -> ActionRefusal | None:
        status = self._verdicts.verdict_of(view, now).verdict.status
        if status not in writer_detection.RUNNING:
            return None
        return ActionRefusal("still_running", f"the query is {status}; stop it first")

    def request(self, view: QueryView, wanted: NewAction, change: WantedChange) -> tuple[Action, bool]:
        """Store the action and carry it out soon. False: an earlier request with this key; its action is returned.

        Raises Conflict where this server may not change the checkpoint, or the query may write to it.
        """
        places, refusal = self.places(view), self.refusal(view)
        if refusal is not None and refusal.code != "action_in_progress":  # that may be this very request
            raise Conflict(refusal.reason, code=refusal.code)
        action, fresh = self._actions.request(view, wanted)
        if fresh and not action.state.final:
            self._thread.submit(self._run, action, change, places)
        return action, fresh

    def _run(self, action: Action, change: WantedChange, places: QueryPlaces) -> None:
        control = ChangeControl(
            clock=self._clock,
            pause=self._pause,
            refuse_running=lambda: self._refuse_running(action.query_id),
            note=lambda reason, evidence: self._actions.note(action.id, reason, evidence),
        )
        outcome = self._outcome(change, places, control)
        try:
            self._actions.finish(action.id, outcome)
            view = self._window.view(action.query_id)
            if view is not None:
                self._look_again(view)
        except (StoreUnavailable, Conflict) as error:
            log.warning("after the %s of the checkpoint of %s: %s", action.action, action.query_id, error)

    def _outcome(self, change: WantedChange, places: QueryPlaces, control: ChangeControl) -> ActionOutcome:
        try:
            return _done(change, carry_out(change, places, control))
        except RepairInterrupted as error:
            return _failed("interrupted", error, {"backup": error.backup})
        except RepairUnfinished as error:
            return _failed("unfinished", error, {"backup": error.backup})
        except InUse as error:
            return _failed("in_use", error)
        except (RepairError, CannotOpen, OSError, StoreUnavailable) as error:
            return _failed("not_possible", error)
        except Exception as error:
            log.exception("the %s of the checkpoint %s failed", change.kind, places.checkpoint)
            return _failed("internal_error", error)

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise InUse("the server is stopping; nothing was changed")

    def _refuse_running(self, query_id: str) -> None:
        """Raise InUse where the query has been started since, or the server stops."""
        self._pause(0)
        view, now = self._window.view(query_id), self._clock()
        context = context_at(view, now, DEFAULTS) if view is not None else None
        started = context is not None and context.active and disappeared(context) is None
        refusal = None if view is None else self._restarting(view, now)
        if started or refusal is not None:
            raise InUse("the query was started meanwhile; nothing was changed")


def _done(change: WantedChange, done: ChangeDone) -> ActionOutcome:
    evidence: dict[str, Any] = {"backup": done.backup, "done": done.title}
    if done.report is None:
        reason = f"{done.title}; the outcome could not be checked: {done.unchecked}"
        return ActionOutcome(ActionState.UNVERIFIED, reason, evidence)
    evidence["verdict"] = done.report.verdict
    reason = f"{done.title}. {summary(done.report)}"
    damaged = done.report.verdict in (ReportStatus.BROKEN, ReportStatus.UNREADABLE)
    # An undo restores a damage that was repaired, too.
    state = ActionState.FAILED if damaged and change.kind != "undo" else ActionState.SUCCEEDED
    return ActionOutcome(state, reason, evidence)


def _failed(code: str, error: Exception, evidence: Mapping[str, Any] = {}) -> ActionOutcome:
    return ActionOutcome(ActionState.FAILED, str(error), {"code": code, **evidence})
