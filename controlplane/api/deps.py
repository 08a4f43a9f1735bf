"""Dependencies of the routes: the control plane, the caller, checked ids, parameters and bodies.

Requests are validated here, before a route runs. All dependencies are `async`, as FastAPI runs any other one in a
thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from controlplane.api import intake
from controlplane.api.fleet.cache import FleetCache
from controlplane.app import ControlPlane
from controlplane.errors import BadRequest
from controlplane.query_names import APP_PREFIX, NamedQuery, candidates, matching, whole_id
from controlplane.runtime.tokens import Token
from controlplane.store.tables import storable
from listeners.protocol import wire
from listeners.protocol.errors import WireError

M = TypeVar("M", bound=BaseModel)


async def _plane(request: Request) -> ControlPlane:
    plane: ControlPlane = request.app.state.plane
    return plane


async def _caller(request: Request) -> Token:
    token: Token = request.state.token
    return token


async def _rows(request: Request) -> FleetCache:
    rows: FleetCache = request.app.state.fleet_cache
    return rows


ControlPlaneDep = Annotated[ControlPlane, Depends(_plane)]
FleetCacheDep = Annotated[FleetCache, Depends(_rows)]
CallerDep = Annotated[Token, Depends(_caller)]


NAMES = "Spark's id of the query, a prefix of it, the query's name, or app/name"


async def _query_id(plane: ControlPlaneDep, query_id: Annotated[str, Path(description=NAMES)]) -> str:
    return _named(plane, query_id, "path")


async def _queried_id(
    plane: ControlPlaneDep,
    query_id: Annotated[str | None, Query(max_length=600, description=NAMES)] = None,
) -> str | None:
    return None if query_id is None else _named(plane, query_id, "query")


def _named(plane: ControlPlane, text: str, place: str) -> str:
    """The id of the query that `text` names; 422 if none or several match. A whole id need not be known."""
    if known := whole_id(text):
        return known
    for views in (plane.fleet(), plane.window.views()):
        found = matching(text, (NamedQuery(view.query_id, view.app, view.name) for view in views))
        if len(found) == 1:
            return found[0].query_id
        if found:
            break
    reason = f"matches {candidates(found)}" if found else f"names no query; give {NAMES}"
    raise RequestValidationError([{"type": "query_id", "loc": (place, "query_id"), "msg": reason}])


async def _agent(agent: Annotated[uuid.UUID, Path(description="the agent's id, as in its events")]) -> str:
    return str(agent)


async def _action_id(action_id: Annotated[uuid.UUID, Path(description="the action's id")]) -> str:
    return str(action_id)


async def _ledger_id(
    plane: ControlPlaneDep,
    query_id: Annotated[
        str | None, Query(max_length=600, description=f"{NAMES}; `app:NAME`: an application")
    ] = None,
) -> str | None:
    is_app = query_id is not None and query_id.startswith(APP_PREFIX)
    return query_id if query_id is None or is_app else _named(plane, query_id, "query")


QueryIdDep = Annotated[str, Depends(_query_id)]
#: The optional parameter `query_id`; None where it is absent.
QueriedIdDep = Annotated[str | None, Depends(_queried_id)]
#: The same, or what the ledger has as the id of an application.
LedgerIdDep = Annotated[str | None, Depends(_ledger_id)]
AgentIdDep = Annotated[str, Depends(_agent)]
ActionIdDep = Annotated[str, Depends(_action_id)]


@dataclass(frozen=True)
class EncodedBody:
    """A body as sent, with its Content-Encoding; `claim` is its share of the memory for bodies."""

    raw: bytes
    encoding: str
    claim: intake.Claim


def sender_time(x_sent_at: str | None) -> float | None:
    """The agent's clock when it sent the request, Unix seconds; BadRequest if the header is no time."""
    if x_sent_at is None:
        return None
    try:
        return wire.seconds_of(float(x_sent_at))
    except (ValueError, WireError):
        raise BadRequest("X-Sent-At must be Unix seconds, e.g. 1795152000.125") from None


def note_contact(plane: ControlPlane, caller: Token, x_agent: str | None) -> None:
    """Note that the sending agent lives, whatever the answer. Its events may be old, or those of a dead process."""
    if x_agent is not None and caller.app in (None, plane.app_of(x_agent)):
        plane.window.note_contact(x_agent, plane.clock())


async def _json(request: Request) -> Any:
    return read_json(await intake.read_body(request, intake.JSON_BYTES))


def read_json(raw: bytes) -> Any:
    """A body as JSON; BadRequest if it is none."""
    try:
        document = wire.loads(raw)
    except WireError as error:
        raise BadRequest(f"the body: {error}", code="bad_json") from None
    # JSON can escape a lone surrogate, but neither a response nor a database can encode it.
    return wire.loads(storable(wire.dumps(document))) if b"\\u" in raw else document


JsonDep = Annotated[Any, Depends(_json)]


def body_of(model: type[M]) -> Callable[[Any], Awaitable[M]]:
    """A dependency that reads a JSON body as `model`; an invalid body is answered with 422."""

    async def read(document: JsonDep) -> M:
        try:
            return model.model_validate(document)
        except ValidationError as error:
            mistakes = [{**e, "loc": ("body", *e["loc"])} for e in error.errors(include_url=False)]
            raise RequestValidationError(mistakes) from None

    return read


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """`openapi_extra` for a route whose body is read by `body_of`."""
    schema = _inlined(model.model_json_schema())
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its definitions in their places: in the API's document their references would lead nowhere."""
    definitions = schema.pop("$defs", {})

    def inline(value: Any) -> Any:
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).removeprefix("#/$defs/")
            return (
                inline(definitions[name]) if name in definitions else {k: inline(v) for k, v in value.items()}
            )
        return [inline(each) for each in value] if isinstance(value, list) else value

    return dict(inline(schema))


def seconds(name: str, value: str | None) -> float | None:
    """A query parameter in RFC 3339 or Unix seconds, None if absent; BadRequest names the parameter."""
    if value is None or value == "":
        return None
    try:
        return wire.seconds_of(_number(value))
    except WireError as error:
        raise BadRequest(f"{name}: {error}") from None


def stretch(start: str | None, end: str | None, now: float, default_seconds: float) -> tuple[float, float]:
    """The parameters `start` and `end` as Unix seconds; by default the last `default_seconds` up to now."""
    until = seconds("end", end)
    until = now if until is None else until
    since = seconds("start", start)
    since = max(0.0, until - default_seconds) if since is None else since
    if since > until:
        raise BadRequest("start must not be after end")
    return since, until


def _number(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value
