"""Routes of agents: the list, the long poll for commands, and the results of commands.

The long poll is `async`: thousands of polls wait without threads or I/O. It answers 204 when its time is over or the
server stops.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from controlplane.actions.transitions import command_of
from controlplane.api.app_bodies import AgentsBody, driver_body
from controlplane.api.bodies import OneActionBody
from controlplane.api.deps import ActionIdDep, AgentIdDep, CallerDep, ControlPlaneDep, JsonDep
from controlplane.api.render import action_body
from controlplane.app import ControlPlane
from controlplane.checkpoints.inventory_requests import AGENT_COLLECT_SECONDS
from controlplane.checkpoints.service import INVENTORY
from controlplane.errors import BadRequest, Forbidden, Unauthorized
from controlplane.health.driver_status import judge_driver
from controlplane.health.host import host_load
from controlplane.model import Action, ActionState
from controlplane.runtime.tokens import Token
from listeners.protocol import redaction, wire
from listeners.protocol.errors import WireError

router = APIRouter(prefix="/api/v1", tags=["agents"])
#: Polls that began together, as after a restart of the server, end spread over this share of their wait.
JITTER, JITTER_FROM = 0.4, 10.0
Wait = Annotated[float, Query(ge=0, le=60, allow_inf_nan=False, description="seconds to wait for a command")]
RESULT = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["state"],
                "properties": {
                    "state": {"enum": list(wire.RESULT_STATES)},
                    "reason": {"type": "string"},
                    "code": {"type": "string"},
                    "evidence": {"type": "object"},
                },
            }
        }
    },
}


@router.get("/agents", summary="All agents with the state of their drivers, newest first")
def list_agents(plane: ControlPlaneDep) -> AgentsBody:
    window, now = plane.window, plane.clock()
    since = plane.listening.since(now)
    open_runs = {
        run.run.run_id: run.run.agent for _, run, _ in window.rows() if run and run.run.ended_at is None
    }
    for view in window.views():  # the newest run is not the only one where two drivers write to a checkpoint
        open_runs |= {writer.run_id: writer.agent for writer in (*view.writers, *view.beside)}
    queries = Counter(open_runs.values())
    bodies = []
    for agent in window.agents():
        heartbeat = window.agent_info(agent.agent).get("heartbeat") or {}
        host = host_load(heartbeat)
        running = queries[agent.agent] if agent.ended_at is None else 0
        bodies.append(driver_body(agent, judge_driver(agent, host, now, since), host, heartbeat, running))
    return AgentsBody(agents=bodies)


@router.get(
    "/agents/{agent}/commands",
    summary="Wait for commands (long poll)",
    responses={204: {"description": "no command within `wait`; poll again"}},
)
async def poll_commands(
    request: Request, plane: ControlPlaneDep, caller: CallerDep, agent: AgentIdDep, wait: Wait = 25.0
) -> Response:
    """Commands for this agent as soon as there is one; 204 after `wait` seconds."""
    _check_bound(plane, caller, agent)
    plane.window.note_contact(agent, plane.clock())
    actions = await _next_actions(request, plane, caller, agent, wait)
    if not actions:
        return Response(status_code=204)
    return JSONResponse({"commands": [_command(plane, action) for action in actions]})


def _check_bound(plane: ControlPlane, caller: Token, agent: str) -> None:
    app = plane.app_of(agent)
    if caller.app is not None and app is not None and app != caller.app:
        raise Forbidden(f"the token is bound to the app {caller.app}; the agent belongs to {app}")


def _command(plane: ControlPlane, action: Action) -> dict[str, Any]:
    command = command_of(action, plane.window.view(action.query_id))
    return wire.encode_command(
        replace(command, timeout_seconds=AGENT_COLLECT_SECONDS) if action.action == INVENTORY else command
    )


def _is_stored(action: Action) -> bool:
    """Whether this is an action on a query, unlike a command for an inventory or a driver's leases."""
    return action.action not in (INVENTORY, wire.LEASE)


async def _next_actions(
    request: Request, plane: ControlPlane, caller: Token, agent: str, wait: float
) -> list[Action]:
    loop, outbox = asyncio.get_running_loop(), plane.outbox
    until = loop.time() + spread(wait)
    while True:
        due = outbox.due(agent, caller.app, plane.clock())
        if due:
            return await _send(request, plane, caller, due)
        left = until - loop.time()
        if left <= 0 or outbox.closed:
            return []
        await outbox.wait(agent, left)


def spread(wait: float) -> float:
    """The seconds that a poll is held: `wait`, shortened at random if it is long."""
    return wait * random.uniform(1 - JITTER, 1) if wait >= JITTER_FROM else wait


async def _send(request: Request, plane: ControlPlane, caller: Token, due: list[Action]) -> list[Action]:
    """Mark the actions as delivered, then answer. If the response is lost, the next poll gets them again."""
    if await request.is_disconnected():
        return []
    if not plane.tokens.holds(caller):
        raise Unauthorized("the token was revoked or has expired")
    plane.outbox.mark_sent(due, plane.clock())
    try:
        stored_actions = [action for action in due if _is_stored(action)]
        writes = [
            plane.actions.deliver(action)
            for action in stored_actions
            if action.state == ActionState.REQUESTED
        ]
        written = await asyncio.gather(*(asyncio.wrap_future(write) for write in writes))
    except BaseException:
        plane.outbox.mark_sent(due, None)
        raise
    again = [
        action for action in due if action.state == ActionState.DELIVERED or action not in stored_actions
    ]
    return again + [action for action in written if action.state == ActionState.DELIVERED]


@router.post(
    "/commands/{action_id}/result",
    summary="Report the result of a command",
    openapi_extra={"requestBody": RESULT},
)
def post_result(
    plane: ControlPlaneDep, caller: CallerDep, action_id: ActionIdDep, document: JsonDep
) -> OneActionBody:
    """Apply a result. A repeated result, or one after the end of the action, changes nothing."""
    try:
        result = wire.decode_result(redaction.redact_values(document, redaction.mask))
    except WireError as error:
        raise BadRequest(str(error)) from None
    answer: Callable[[str, wire.CommandResult, str | None], Action] = plane.actions.answer
    if plane.checkpoints.is_inventory_command(action_id):
        answer = plane.checkpoints.answer
    elif plane.supervision.drivers.is_lease(action_id):
        answer = plane.supervision.drivers.answer
    return OneActionBody(action=action_body(answer(action_id, result, caller.app)))
