"""Service of applications: keeps what was declared, carries out actions, and observes the drivers.

At most one action of an application runs at a time, which the row in the store claims. Called by the API and the
scheduler; `controlplane.apps.steps` carries the actions out in threads of this service.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.engine import Connection

from controlplane.apps import declaration, guard, versions
from controlplane.apps.crash_loops import CrashLoops, Evidence
from controlplane.apps.drain import QueryDrain
from controlplane.apps.environment import driver_environment
from controlplane.apps.guard import HeldCheckpoints
from controlplane.apps.launchers.catalogue import launcher_of
from controlplane.apps.launchers.seam import Launcher
from controlplane.apps.model import (
    AppAction,
    AppActionState,
    AppSpec,
    DesiredAppState,
    DriverPhase,
    DriverStatus,
    NewAppAction,
    StartedDriver,
    action_from_json,
    driver_from_json,
)
from controlplane.apps.policy_restarts import PolicyLedger, PolicyRestarts
from controlplane.apps.steps import NO_DRIVER, ActionSteps
from controlplane.errors import Conflict, Forbidden, NotFound
from controlplane.events.window import Window
from controlplane.settings import Settings
from controlplane.store import audit
from controlplane.store.supervision import apps as rows
from controlplane.store.supervision.apps import AppRow
from controlplane.store.writer import Writer
from listeners.protocol import redaction

log = logging.getLogger(__name__)
ACTION_THREADS, POLL_THREADS = 8, 4
#: How long a request waits for the outcome of its action.
WAIT_SECONDS = 5.0
SERVER = "server"
NOT_ASKED = DriverStatus(DriverPhase.UNKNOWN, "The launcher was not asked yet.")
INTERRUPTED = "The server ended during the action. The state of the driver is asked for again."
_DESIRED = {"stop": DesiredAppState.STOPPED}


@dataclass(frozen=True)
class KnownApp:
    """An application with its newest driver, that driver's state as of the last look, and its newest action."""

    row: AppRow
    spec: AppSpec
    driver: StartedDriver | None
    status: DriverStatus
    action: AppAction | None


class AppService:
    """Thread-safe. `settings.launchers` names the kinds of launchers that may act."""

    def __init__(
        self,
        settings: Settings,
        writer: Writer,
        window: Window,
        queries: QueryDrain,
        reading: Callable[[], AbstractContextManager[Connection]],
        clock: Callable[[], float],
        ledger: PolicyLedger,
        evidence: Evidence,
        held: HeldCheckpoints = lambda app: (),
    ):
        self._settings, self._writer, self._reading, self._clock = settings, writer, reading, clock
        self._agents, self._held = window.agents, held
        loops = CrashLoops(evidence, self._put_healthy, clock)
        self._policies = PolicyRestarts(ledger, self.request, self._refusal, clock, loops)
        self._statuses: dict[str, tuple[str, DriverStatus]] = {}  # by app: launch id and state
        self._polled: dict[str, Future[None]] = {}
        self._lock = threading.Lock()  # from the claim of an action to its place in `_running`
        self._running: dict[str, Future[AppAction]] = {}
        self._actions = ThreadPoolExecutor(ACTION_THREADS, thread_name_prefix="app-action")
        self._polls = ThreadPoolExecutor(POLL_THREADS, thread_name_prefix="app-poll")
        self._steps = ActionSteps(
            self, self._launcher_of, self._new_driver, self._environment, window.agents, queries, clock, held
        )

    # -- reading -----------------------------------------------------------------------------------

    def apps(self) -> list[KnownApp]:
        """Every declared application, by name."""
        with self._reading() as conn:
            found = rows.all_apps(conn)
        return [self._known(row) for row in found]

    def app(self, name: str) -> KnownApp:
        """One application; NotFound if it is not declared."""
        with self._reading() as conn:
            row = rows.get(conn, name)
        if row is None:
            raise _unknown(name)
        return self._known(row)

    def logs(self, name: str, lines: int) -> str:
        """The end of the newest driver's output; Conflict without one."""
        driver = self.app(name).driver
        if driver is None:
            raise Conflict(f"{name} was never started from here", code="no_driver")
        return self._launcher_of(driver).logs(driver, lines)

    def given_up(self) -> dict[str, str]:
        """The applications that their policy starts no more, with its name."""
        return dict(self._policies.given_up)

    # -- changes -----------------------------------------------------------------------------------

    def apply(self, specs: Sequence[AppSpec], actor: str, via: str) -> dict[str, str]:
        """Declare these applications in place of the present ones; the kind of change by name."""
        for spec in specs:
            self._check_enabled(spec.kind)
        now = self._clock()

        def work(conn: Connection) -> dict[str, str]:
            planned = declaration.plan(rows.all_apps(conn), specs, actor, now)
            for row in planned.stored:
                rows.put(conn, row)
            for name in planned.removed:
                rows.delete(conn, name)
            changed = {n: c for n, c in planned.changes.items() if c != declaration.UNCHANGED}
            if changed:
                audit.record(conn, now, actor, via, "apps.apply", "apps", changed)
            return dict(planned.changes)

        return self._writer.write(work)

    def request(self, name: str, wanted: NewAppAction) -> tuple[AppAction, bool]:
        """Begin an action, and wait a little for its outcome. False: an earlier request with this key, as it is now."""
        now, action_id = self._clock(), str(uuid.uuid4())

        def claim(conn: Connection) -> tuple[AppRow, AppAction]:
            row = rows.get(conn, name)
            if row is None:
                raise _unknown(name)
            present = action_from_json(row.action)
            if present is not None and present.idempotency_key == (wanted.idempotency_key or ""):
                return row, present
            if present is not None and not _may_follow(wanted, present):
                raise Conflict(f"a {present.action} of {name} is under way", code="action_open")
            self._check_enabled(row.spec["kind"])
            source = versions.source_of(wanted, row.spec, driver_from_json(row.driver))
            action = replace(_new_action(name, wanted, action_id, now), source=source)
            if wanted.by_policy:
                return _by_policy(conn, row, action, now)
            desired = _DESIRED.get(wanted.action, DesiredAppState.RUNNING).value
            row = replace(
                row, action=action.to_json(), desired=desired, desired_at=now, desired_by=wanted.actor
            )
            rows.put(conn, row)
            _record(conn, now, action, f"app.{action.action}", {"request_reason": wanted.reason})
            return row, action

        with self._lock:
            row, action = self._writer.write(claim)
            if action.id != action_id:
                return action, False
            done = self._actions.submit(self._run, row, action, self._running.get(name))
            self._running[name] = done
        try:
            return done.result(WAIT_SECONDS), True
        except FutureTimeout:
            return action, True

    def _run(self, row: AppRow, action: AppAction, before: Future[AppAction] | None) -> AppAction:
        try:
            if before is not None and not before.done():
                wait([before])
                row = self.app(action.app).row  # with the driver that it has started
            driver = driver_from_json(row.driver)
            spec = versions.spec_to_start(AppSpec.from_json(row.spec), action.source, driver)
            outcome = self._steps.run(spec, action, driver)
        except Exception as error:
            log.exception("the %s of %s failed", action.action, action.app)
            reason = f"Internal error ({type(error).__name__}); see the server log."
            outcome = replace(action, state=AppActionState.FAILED, reason=reason)
        driver = self.app(action.app).driver
        if driver is not None and driver.ended_at is None:
            self._poll(driver)  # so that the new state is there with the outcome
        outcome = replace(outcome, finished_at=self._clock())
        self._writer.write(lambda conn: _finish(conn, outcome))
        return outcome

    def is_superseded(self, action: AppAction) -> bool:
        """Whether a later action of the application was requested."""
        newest = self.app(action.app).action
        return newest is not None and newest.id != action.id

    def put_driver(self, app: str, driver: StartedDriver) -> None:
        """Store the driver of an application."""

        def work(conn: Connection) -> None:
            row = rows.get(conn, app)
            if row is not None:
                rows.put(conn, replace(row, driver=driver.to_json()))

        self._writer.write(work)

    def _put_healthy(self, driver: StartedDriver, at: float) -> None:
        """Store that the version of a driver is healthy, unless another driver was started meanwhile."""

        def work(conn: Connection) -> None:
            row = rows.get(conn, driver.app)
            present = driver_from_json(row.driver) if row is not None else None
            if row is None or present is None or present.launch_id != driver.launch_id:
                return
            if present.version_record is not None:
                record = replace(present.version_record, healthy_at=at)
                rows.put(conn, replace(row, driver=replace(present, version_record=record).to_json()))

        self._writer.write(work)

    # -- the server's life -------------------------------------------------------------------------

    def load(self) -> None:
        """End the actions that a former server left open."""
        now = self._clock()

        def work(conn: Connection) -> None:
            for row in rows.all_apps(conn):
                action = action_from_json(row.action)
                if action is not None and action.state is AppActionState.RUNNING:
                    ended = replace(action, state=AppActionState.FAILED, reason=INTERRUPTED, finished_at=now)
                    _finish(conn, ended)

        self._writer.write(work)

    def stop(self) -> None:
        """Begin no more actions and polls. The drivers go on."""
        for pool in (self._actions, self._polls):
            pool.shutdown(wait=False, cancel_futures=True)

    def tick(self) -> None:
        """Ask for the state of every driver that has not ended, and apply restart policies, each in a thread."""
        apps = self.apps()
        for name in set(self._policies.given_up) - {app.spec.name for app in apps if app.spec.policy}:
            self._policies.given_up.pop(name, None)
        for app in apps:
            open_action = app.action is not None and app.action.state is AppActionState.RUNNING
            running = self._polled.get(app.spec.name)
            idle = app.driver is None or (app.driver.ended_at is not None and app.spec.policy is None)
            if not idle and not open_action and (running is None or running.done()):
                self._polled[app.spec.name] = self._polls.submit(self._observe, app)

    def _observe(self, app: KnownApp) -> None:
        try:
            if app.driver is not None and app.driver.ended_at is None:
                self._poll(app.driver)
            policy, now = self._policies.policy_of(app.spec), self.app(app.spec.name)
            if policy is None:
                self._policies.given_up.pop(app.spec.name, None)
            if policy is not None and now.driver is not None:
                wanted = (
                    now.row.desired == DesiredAppState.RUNNING and app.spec.kind in self._settings.launchers
                )
                word, declared = now.row.desired_at, now.row.spec
                self._policies.consider(policy, now.driver, now.status, wanted, word, declared)
        except Exception as error:
            log.warning("%s was not observed: %s", app.spec.name, error)

    def _refusal(self, driver: StartedDriver, status: DriverStatus) -> str | None:
        held = self._held(driver.app)
        return guard.start_refusal(driver.app, driver, status, self._agents(), self._clock(), held)

    def _poll(self, driver: StartedDriver) -> None:
        status = self._steps.status(driver)
        status = replace(status, reason=redaction.mask(status.reason))
        if status.phase is DriverPhase.ENDED:
            self._writer.write(lambda conn: self._store_end(conn, driver, status))
        self._statuses[driver.app] = (driver.launch_id, status)

    def _store_end(self, conn: Connection, driver: StartedDriver, status: DriverStatus) -> None:
        row, now = rows.get(conn, driver.app), self._clock()
        present = driver_from_json(row.driver) if row is not None else None
        if row is None or present is None or present.ended_at is not None:
            return
        if present.launch_id != driver.launch_id:
            return
        ended = replace(present, ended_at=now if status.at is None else status.at, end_reason=status.reason)
        rows.put(conn, replace(row, driver=ended.to_json()))
        detail = {"launch": driver.launch_id, "reason": status.reason}
        audit.record(conn, now, SERVER, SERVER, "app.ended", driver.app, detail)

    # -- parts -------------------------------------------------------------------------------------

    def _known(self, row: AppRow) -> KnownApp:
        driver = driver_from_json(row.driver)
        return KnownApp(
            row, AppSpec.from_json(row.spec), driver, self._status_of(driver), action_from_json(row.action)
        )

    def _status_of(self, driver: StartedDriver | None) -> DriverStatus:
        if driver is None:
            return NO_DRIVER
        if driver.ended_at is not None:
            return DriverStatus(DriverPhase.ENDED, driver.end_reason, driver.ended_at)
        launch_id, status = self._statuses.get(driver.app, ("", NOT_ASKED))
        return status if launch_id == driver.launch_id else NOT_ASKED

    def _check_enabled(self, kind: str) -> None:
        if kind not in self._settings.launchers:
            message = f"launchers of kind {kind} are switched off; the server's setting --launcher {kind} allows them"
            raise Forbidden(message, code="launcher_disabled")

    def _launcher_of(self, driver: StartedDriver) -> Launcher:
        return launcher_of(driver, self._directory(driver.app))

    def _directory(self, app: str) -> Path:
        return (self._settings.data_dir / "apps" / app).absolute()

    def _new_driver(self, spec: AppSpec, action: AppAction, before: StartedDriver | None) -> StartedDriver:
        now = self._clock()
        launch_id = f"{int(now)}-{uuid.uuid4().hex[:8]}"
        former = before.version_record if before is not None else None
        record = versions.version_of(former, spec, action.source, now)
        new = StartedDriver(spec.name, launch_id, spec.kind, spec.launcher, spec.version, now, action.actor)
        return replace(new, version_record=record)

    def _environment(self, spec: AppSpec) -> dict[str, str]:
        settings = self._settings
        url = (
            settings.server_url
            if spec.kind in ("process", "command")
            else settings.url or settings.advertised_url
        )
        return driver_environment(spec, url, None if spec.kind == "kubernetes" else settings.agent_token_file)


def _may_follow(wanted: NewAppAction, present: AppAction) -> bool:
    """Whether an action may be requested after this one: a person's stop does not wait for the end of a start."""
    return present.state is not AppActionState.RUNNING or (
        wanted.action == "stop" and present.action != "stop" and not wanted.by_policy
    )


def _by_policy(conn: Connection, row: AppRow, action: AppAction, now: float) -> tuple[AppRow, AppAction]:
    """Claim the action of a policy, unless a person has asked for a stop meanwhile."""
    if row.desired != DesiredAppState.RUNNING:
        raise Conflict(f"{row.desired_by} set the desired state to {row.desired}", code="desired_state")
    row = replace(row, action=action.to_json())
    rows.put(conn, row)
    _record(conn, now, action, f"app.{action.action}", {"request_reason": action.request_reason})
    return row, action


def _new_action(name: str, wanted: NewAppAction, action_id: str, now: float) -> AppAction:
    return AppAction(
        action_id,
        name,
        wanted.action,
        wanted.actor,
        wanted.via,
        now,
        request_reason=wanted.reason,
        drain=wanted.drain,
        force=wanted.force,
        idempotency_key=wanted.idempotency_key,
    )


def _finish(conn: Connection, outcome: AppAction) -> None:
    row = rows.get(conn, outcome.app)
    if row is not None and row.action is not None and row.action["id"] == outcome.id:
        rows.put(conn, replace(row, action=outcome.to_json()))
    detail = {"state": outcome.state.value, "reason": outcome.reason}
    _record(conn, outcome.finished_at or outcome.requested_at, outcome, f"app.{outcome.action}.end", detail)


def _record(conn: Connection, at: float, action: AppAction, what: str, detail: dict[str, str]) -> None:
    forced = {"force": True} if action.force else {}
    audit.record(conn, at, action.actor, action.via, what, action.app, {"id": action.id, **detail, **forced})


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no application {name[:100]}")
