"""Bodies of the routes of applications and their drivers, and how they are made. Values of environments never leave the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from controlplane.api.bodies import AgentBody, Body, Number, Person, Stamp, Text
from controlplane.api.render import agent_body, finite
from controlplane.apps.model import AppAction
from controlplane.apps.service import KnownApp
from controlplane.driver_model import HostLoad
from controlplane.health.driver_status import DriverVerdict
from controlplane.metrics.agent_samples import executors, heap
from controlplane.model import Agent, QueryView, Verdict
from listeners.protocol.wire import rfc3339

MAX_FILE_CHARS = 200_000


class AppActionRequest(BaseModel):
    """`POST …/apps/{app}/actions`. `force`: start although an earlier driver may still run; admins only."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: Literal["start", "stop", "restart"]
    drain: bool = False
    force: bool = False
    reason: Text = ""
    actor: Person | None = None


class AppsRequest(BaseModel):
    """`PUT /apps`: the text of `apps.yaml`, which replaces what was declared."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(max_length=MAX_FILE_CHARS)
    actor: Person | None = None


class AppActionBody(Body):
    """An action on an application. `state`: running, succeeded, failed or refused."""

    id: str
    app: str
    action: str
    actor: str
    state: str
    reason: str
    request_reason: str
    drain: bool
    force: bool
    requested_at: Stamp
    finished_at: Stamp


class DriverBody(AgentBody):
    """A driver as its agent reports it. `state`: failed, unreachable, silent, overloaded, running or ended.

    `queries`: its runs that have not ended. Executors and heap are those of the last heartbeat.
    """

    state: str
    reason: str
    last_contact_at: Stamp
    queries: int
    executors: Number
    heap_bytes: Number
    heap_max_bytes: Number


class AgentsBody(Body):
    """Agents with their drivers, newest first."""

    agents: list[DriverBody]


class AppDriverBody(Body):
    """A driver that reports as this application: its agent."""

    agent: str
    spark_version: str | None
    ui_url: str | None
    first_seen_at: Stamp
    last_seen_at: Stamp
    ended_at: Stamp
    end_reason: str | None


class AppQueryBody(Body):
    """A query of the application."""

    query_id: str
    name: str | None
    status: str
    reason: str


class AppBody(Body):
    """An application. `state`: of the driver that its launcher started; `version` is declared, `running_version` runs.

    `env`: names of variables only. `restart_policy`: its name.
    """

    name: str
    launcher: str
    version: str
    labels: dict[str, str]
    env: list[str]
    restart_policy: str | None
    desired: str
    desired_at: Stamp
    desired_by: str
    declared_at: Stamp
    declared_by: str
    state: str
    reason: str
    running_version: str | None
    started_at: Stamp
    started_by: str | None
    ended_at: Stamp
    action: AppActionBody | None
    drivers: list[AppDriverBody]
    queries: list[AppQueryBody]


class AppsBody(Body):
    """All applications, and the kinds of launchers that the server allows."""

    apps: list[AppBody]
    launchers: list[str]


class AppliedBody(Body):
    """What applying a file changed, by application: added, changed, removed or unchanged."""

    changes: dict[str, str]


class OneAppActionBody(Body):
    """One action."""

    action: AppActionBody


class AppLogsBody(Body):
    """The end of a driver's output."""

    app: str
    text: str


def _stamp(seconds: float | None) -> Stamp:
    return None if seconds is None else rfc3339(seconds)


def action_body(action: AppAction) -> AppActionBody:
    """The action as its body."""
    return AppActionBody(
        id=action.id,
        app=action.app,
        action=action.action,
        actor=action.actor,
        state=action.state.value,
        reason=action.reason,
        request_reason=action.request_reason,
        drain=action.drain,
        force=action.force,
        requested_at=_stamp(action.requested_at),
        finished_at=_stamp(action.finished_at),
    )


def driver_body(
    agent: Agent, verdict: DriverVerdict, host: HostLoad | None, heartbeat: Mapping[str, Any], queries: int
) -> DriverBody:
    """The driver as its body; `host` and `heartbeat` are of its last heartbeat."""
    used, largest = heap(heartbeat)
    return DriverBody(
        **dict(agent_body(agent, host)),
        state=verdict.state.value,
        reason=verdict.reason,
        last_contact_at=_stamp(agent.last_contact_at),
        queries=queries,
        executors=finite(executors(heartbeat)),
        heap_bytes=finite(used),
        heap_max_bytes=finite(largest),
    )


def app_body(app: KnownApp, agents: Iterable[Agent], queries: Iterable[tuple[QueryView, Verdict]]) -> AppBody:
    """The application as its body, with its agents and queries."""
    spec, row, driver = app.spec, app.row, app.driver
    return AppBody(
        name=spec.name,
        launcher=spec.kind,
        version=spec.version,
        labels=dict(spec.labels),
        env=sorted({*spec.environment, *spec.environment_files}),
        restart_policy=spec.policy,
        desired=row.desired,
        desired_at=_stamp(row.desired_at),
        desired_by=row.desired_by,
        declared_at=_stamp(row.declared_at),
        declared_by=row.declared_by,
        state=app.status.phase.value,
        reason=app.status.reason,
        running_version=driver.version if driver is not None and driver.ended_at is None else None,
        started_at=_stamp(driver.started_at) if driver is not None else None,
        started_by=driver.started_by if driver is not None else None,
        ended_at=_stamp(driver.ended_at) if driver is not None else None,
        action=action_body(app.action) if app.action is not None else None,
        drivers=[_driver_body(agent) for agent in agents],
        queries=[_query_body(view, verdict) for view, verdict in queries],
    )


def _driver_body(agent: Agent) -> AppDriverBody:
    return AppDriverBody(
        agent=agent.agent,
        spark_version=agent.spark_version,
        ui_url=agent.ui_url,
        first_seen_at=_stamp(agent.first_seen_at),
        last_seen_at=_stamp(agent.last_contact_at),
        ended_at=_stamp(agent.ended_at),
        end_reason=agent.end_reason,
    )


def _query_body(view: QueryView, verdict: Verdict) -> AppQueryBody:
    return AppQueryBody(
        query_id=view.query_id, name=view.name, status=verdict.status.value, reason=verdict.reason
    )
