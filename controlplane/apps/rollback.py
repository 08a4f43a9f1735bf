"""Evidence about an application's version: whether it is healthy, what changed with it, and whether its checkpoints allow a rollback.

Called by `controlplane.apps.policy_restarts`. Reads the window, the doctor's reports and the shapes of queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from controlplane.actions import guards
from controlplane.apps.guard import TOLERANCE_SECONDS
from controlplane.apps.model import StartedDriver
from controlplane.checkpoints.inventory_requests import InventoryRequest
from controlplane.errors import ControlPlaneError
from controlplane.events.window import Window
from controlplane.health.checkpoint_verdict import NOT_ALLOWED
from controlplane.model import CheckpointSummary, QueryView, RunEnd
from controlplane.shapes.report import comparison_document
from controlplane.store import checkpoints as report_rows
from controlplane.store import shapes as shape_rows
from controlplane.store.shapes import ShapeOwner

MAX_CHANGES = 5
#: The agent of the ended driver may be asked first, whose silence is noticed; then this server reads the checkpoint.
MAX_REQUESTS = 2


@dataclass(frozen=True)
class RollbackCheck:
    """The doctor's verdict on a rollback. `refusal`: why not; None allows it. `waiting`: for an inventory."""

    refusal: str | None = None
    waiting: bool = False


class Doctor(Protocol):
    """The part of `controlplane.checkpoints.service.CheckpointService` that is used here."""

    def pending_request(self, query_id: str) -> InventoryRequest | None: ...

    def trouble(self, query_id: str) -> str | None: ...

    def request_before_start(self, view: QueryView) -> None: ...


class VersionEvidence:
    """Thread-safe."""

    def __init__(
        self,
        window: Window,
        doctor: Doctor,
        reading: Callable[[], AbstractContextManager[Connection]],
        clock: Callable[[], float],
    ):
        self._window, self._doctor, self._reading, self._clock = window, doctor, reading, clock
        self._requests: dict[str, tuple[str, int]] = {}  # by query: the driver's launch id, and how often

    def is_healthy(self, driver: StartedDriver) -> bool:
        """Whether queries of the driver are known, and each of them works."""
        since = driver.started_at - TOLERANCE_SECONDS
        runs = [view for view in self._views(driver.app) if view.run and view.run.started_at >= since]
        return bool(runs) and all(map(_works, runs))

    def changes(self, driver: StartedDriver) -> list[str]:
        """What else changed with the driver's version: Spark's version and the shapes of its queries."""
        since = driver.version_record.since if driver.version_record else driver.started_at
        return [*self._spark(driver.app, since), *self._shapes(driver.app, since)][:MAX_CHANGES]

    def check(self, driver: StartedDriver) -> RollbackCheck:
        """Whether the checkpoints of the application allow a start of the version before this driver's."""
        since = driver.version_record.since if driver.version_record else driver.started_at
        views = [v for v in self._views(driver.app) if not v.facts.checkpoint_is_temporary]
        if not views:
            return RollbackCheck("no query of it is known, so there is no checkpoint to check")
        found = [self._of_query(view, driver, since) for view in views]
        refused = next((check for check in found if check.refusal is not None), None)
        return refused or RollbackCheck(waiting=any(check.waiting for check in found))

    def _views(self, app: str) -> list[QueryView]:
        return [v for v in self._window.fleet() if v.app == app and v.retired_at is None]

    def _spark(self, app: str, since: float) -> Iterator[str]:
        agents = sorted((a for a in self._window.agents() if a.app == app), key=lambda a: a.first_seen_at)
        before = [a.spark_version for a in agents if a.first_seen_at < since and a.spark_version]
        after = [a.spark_version for a in agents if a.first_seen_at >= since and a.spark_version]
        if before and after and before[-1] != after[-1]:
            yield f"Spark {before[-1]} → {after[-1]}"

    def _shapes(self, app: str, since: float) -> Iterator[str]:
        for view in self._views(app):
            with self._reading() as conn:
                row = shape_rows.newest(conn, view.query_id)
            if row is not None and row["at"] >= since:
                findings = (row["comparison"] or {}).get("findings") or ()
                yield from (f"query {_name(view)}: {f['change']}" for f in findings if f.get("change"))

    def _of_query(self, view: QueryView, driver: StartedDriver, since: float) -> RollbackCheck:
        name, seen = _name(view), view.checkpoint
        if not guards.is_fresh(seen, view, self._clock()) or seen is None or not _is_after(seen, driver):
            return self._awaited(view, driver)
        with self._reading() as conn:
            report = report_rows.latest_report(conn, view.query_id) or {}
            written, fitting = (_committed_shape(conn, view, until) for until in (math.inf, since))
        if seen.verdict == "unreadable":
            return RollbackCheck(f"the checkpoint of {name} cannot be read")
        # The new version's own disallowed change is what a rollback takes back.
        errors = [f for f in report.get("findings") or () if f.get("severity") == "error"]
        if fault := next((f for f in errors if f.get("check") != NOT_ALLOWED), None):
            return RollbackCheck(f"the checkpoint of {name} is broken: {fault.get('message')}")
        if written is None or written["at"] < since:
            batches = view.run is not None and view.run.started_at >= since and view.run.batches > 0
            return RollbackCheck(_unknown(name) if written is None and batches else None)
        if fitting is None:
            return RollbackCheck(_unknown(name))
        found = comparison_document(written["shape"], fitting["shape"])
        if found["verdict"] == "allowed":
            return RollbackCheck()
        why = found["findings"][0]["message"] if found["findings"] else found.get("reason", "")
        return RollbackCheck(f"the new version has committed batches to the checkpoint of {name}: {why}")

    def _awaited(self, view: QueryView, driver: StartedDriver) -> RollbackCheck:
        """Wait for an inventory; refuse where none can be had."""
        if self._doctor.pending_request(view.query_id) is not None:
            return RollbackCheck(waiting=True)
        launch_id, number = self._requests.get(view.query_id, ("", 0))
        number = number if launch_id == driver.launch_id else 0
        trouble = self._doctor.trouble(view.query_id)
        if trouble is None or number < MAX_REQUESTS:
            self._requests[view.query_id] = (driver.launch_id, number + 1)
            try:
                self._doctor.request_before_start(view)
                return RollbackCheck(waiting=True)
            except ControlPlaneError as error:
                trouble = str(error)
        return RollbackCheck(f"the checkpoint of {_name(view)} was not checked: {trouble}")


def _is_after(seen: CheckpointSummary, driver: StartedDriver) -> bool:
    """Whether the inventory was taken after the driver had ended."""
    return driver.ended_at is not None and seen.taken_at >= driver.ended_at - TOLERANCE_SECONDS


def _committed_shape(conn: Connection, view: QueryView, until: float) -> dict[str, Any] | None:
    """The shape of the newest run before `until` that has committed a batch; None where it is not known."""
    return shape_rows.baseline(conn, ShapeOwner("", view.query_id, view.app, view.name, None, until))


def _unknown(name: str) -> str:
    return f"it is not known what the new version has written to the checkpoint of {name}"


def _works(view: QueryView) -> bool:
    run = view.run
    return (
        run is not None
        and run.end in (None, RunEnd.FINISHED, RunEnd.STOPPED)
        and (run.last_batch_id is not None or view.idle_at is not None)
    )


def _name(view: QueryView) -> str:
    return view.name or view.query_id[:8]
