"""Route `POST /api/v1/events`: a batch from an agent, answered after the store has committed it.

An agent may delete acknowledged events and sends all others again.
"""

from __future__ import annotations

from fastapi import APIRouter

from controlplane.api import intake
from controlplane.api.bodies import EventsAnswer, RejectedLine
from controlplane.api.deps import CallerDep, ControlPlaneDep, EventsBodyDep, SentAtDep
from controlplane.events.parsing import named_ids
from controlplane.events.window import Window
from controlplane.runtime.tokens import Token
from listeners.protocol.wire import Event

router = APIRouter(prefix="/api/v1", tags=["agents"])
NDJSON = {
    "description": "One event a line, gzip (Content-Encoding: gzip) or plain",
    "required": True,
    "content": {"application/x-ndjson": {"schema": {"type": "string", "format": "binary"}}},
}


@router.post("/events", summary="A batch of events", openapi_extra={"requestBody": NDJSON})
def post_events(
    plane: ControlPlaneDep, caller: CallerDep, body: EventsBodyDep, sent_at: SentAtDep
) -> EventsAnswer:
    """Store the new events. A bad line is listed in `rejected` and does not affect the other lines."""
    text = intake.decode(body.raw, body.encoding, plane.settings.max_decompressed_bytes, body.claim)
    answer = plane.ingest.accept(
        intake.lines_of(text), sent_at, lambda event: may_speak(caller, event, plane.window)
    )
    return EventsAnswer(
        acknowledged=answer.acknowledged,
        stored=answer.stored,
        duplicates=answer.duplicates,
        rejected=[RejectedLine(**line) for line in answer.rejected],
    )


def may_speak(token: Token, event: Event, window: Window) -> str | None:
    """Why this token must not send this event; None if it may.

    An agent's id belongs to the app that used it first, and a query to the app of its newest run until it is retired.
    """
    app = event.app.name
    if token.app is None:
        return None
    if token.app != app:
        return f"the token is bound to the app {token.app} and must not send events of {app}"
    owners = (window.agent(event.agent), *(window.agent_of(item) for item in named_ids(event)))
    if all(owner is None or owner.app == app for owner in owners):
        return None
    return f"the token is bound to the app {app}, and the event concerns another app"
