"""Route `POST /api/v1/events`: a batch from an agent, answered after the store has committed it.

An agent may delete acknowledged events and sends all others again. A fleet sends most of its requests here, so the route
takes the request itself (`DirectRoute`), reads a small body on the event loop and holds no thread during the commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Request, Response
from starlette.concurrency import run_in_threadpool

from controlplane.api import intake
from controlplane.api.bodies import EventsAnswer
from controlplane.api.deps import EncodedBody, note_contact, sender_time
from controlplane.api.routes.direct_route import DirectRoute
from controlplane.app import ControlPlane
from controlplane.events.parsing import named_ids, normalize_ids
from controlplane.events.window import Window
from controlplane.ingest.commit_waits import CommitWaits
from controlplane.ingest.fair_share import FairShare, ParsingTurn, app_hint
from controlplane.ingest.service import IngestResult, Receipt, SenderCheck
from controlplane.runtime.tokens import Token
from listeners.protocol.wire import Event

router = APIRouter(prefix="/api/v1", tags=["agents"], route_class=DirectRoute)
#: Parsed on the event loop: a few events, in less time than a thread needs to start under load.
INLINE_BYTES, INLINE_TEXT_BYTES = 16 * 1024, 64 * 1024
NDJSON = {
    "description": "One event a line, gzip (Content-Encoding: gzip) or plain",
    "required": True,
    "content": {"application/x-ndjson": {"schema": {"type": "string", "format": "binary"}}},
}


@router.post(
    "/events",
    summary="A batch of events",
    openapi_extra={"requestBody": NDJSON},
    response_model=EventsAnswer,
)
async def post_events(
    request: Request,
    x_agent: Annotated[str | None, Header(description="the sending agent's own id")] = None,
    x_sent_at: Annotated[str | None, Header()] = None,
) -> Response:
    """Store the new events. A bad line is listed in `rejected` and does not affect the other lines."""
    state, token = request.app.state, request.state.token
    plane: ControlPlane = state.plane
    shares: FairShare = state.shares
    note_contact(plane, token, x_agent)
    encoding = request.headers.get("content-encoding", "")
    with intake.Claim(state.budget) as claim:
        raw = await intake.read_body(request, plane.settings.max_body_bytes, claim)
        body = EncodedBody(raw, encoding, claim)
        app = token.app or app_hint(raw, encoding)
        async with shares.of(app if token.app else (token.id, app)) as turn:
            plane.ingest.quotas.check_rate(app)
            batch = _Batch(plane, token, body, turn, sender_time(x_sent_at))
            result = await _stored(plane, await batch.received(), state.commit_waits)
    return Response(orjson.dumps(asdict(result)), media_type="application/json")


@dataclass(frozen=True)
class _Batch:
    """A request before it is parsed."""

    plane: ControlPlane
    token: Token
    body: EncodedBody
    turn: ParsingTurn
    sent_at: float | None

    async def received(self) -> Receipt:
        """Parse it, here if it is small and no other request of its app parses, else in a thread."""
        if len(self.body.raw) <= INLINE_BYTES and self.turn.is_free:
            text = self._text()
            if len(text) <= INLINE_TEXT_BYTES:
                return self._received(
                    intake.lines_of(text)
                )  # without a turn, for which the event loop would wait
            async with self.turn.threads:
                return await run_in_threadpool(self._parsed, text)
        async with self.turn.threads:
            return await run_in_threadpool(lambda: self._parsed(self._text()))

    def _text(self) -> bytes:
        return intake.decode(
            self.body.raw, self.body.encoding, self.plane.settings.max_decompressed_bytes, self.body.claim
        )

    def _parsed(self, text: bytes) -> Receipt:
        return self._received(self.turn.lines(intake.lines_of(text)))

    def _received(self, lines: Iterable[bytes]) -> Receipt:
        return self.plane.ingest.receive(lines, self.sent_at, sender_check(self.token, self.plane.window))


async def _stored(plane: ControlPlane, receipt: Receipt, waits: CommitWaits) -> IngestResult:
    """The outcome after COMMIT. A thread retries what failed and gives anything but reports to the listeners."""
    await waits.all(receipt.futures)
    if receipt.is_quick:
        return plane.ingest.answer(receipt)
    return await run_in_threadpool(plane.ingest.answer, receipt)


def sender_check(token: Token, window: Window) -> SenderCheck:
    """The check of each event of a request: its ids are written as Spark writes them, then `may_speak` decides."""

    def check(event: Event) -> str | None:
        normalize_ids(event)
        return may_speak(token, event, window)

    return check


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
