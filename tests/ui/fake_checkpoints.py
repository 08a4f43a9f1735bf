"""The checkpoints' part of the fake server: what is known of them, and looks that take a moment."""

from __future__ import annotations

from typing import Any

from tests.ui import checkpoint_factories, factories
from ui.kit.client import ServerNotFound, ServerRefused

Json = dict[str, Any]


class FakeCheckpoints:
    """`looks`: (query id, when) of each look asked for. `brings`: what a look finds, by query id; None: nothing
    ever comes. `nobody`: why nobody can look. `old`: a server that knows no checkpoints."""

    def __init__(self, queries: list[Json], now: float):
        self.known = checkpoint_factories.fleet(queries, now)
        self.looks: list[tuple[str, float]] = []
        self.seconds = 0.6  # that a look takes
        self.brings: dict[str, Json | None] = {}
        self.nobody = ""
        self.old = False

    def all(self, now: float) -> Json:
        self._not_old()
        items = [self.one(query_id, now)["checkpoint"] for query_id in self.known]
        return {"as_of": factories.rfc3339(now), "checkpoints": items}

    def one(self, query_id: str, now: float) -> Json:
        self._not_old()
        if query_id not in self.known:
            raise ServerNotFound("no such query")
        self._take(query_id, now)
        return self.known[query_id]

    def look(self, query_id: str, now: float) -> Json:
        self._not_old()
        if self.nobody:
            raise ServerRefused(self.nobody, "no_collector")
        self.looks.append((query_id, now))
        return {"requested": True, "by": "agent"}

    def _take(self, query_id: str, now: float) -> None:
        """The look that has come back by now, if there is one."""
        done = [at for identity, at in self.looks if identity == query_id and now - at >= self.seconds]
        new = self.brings.get(query_id, {})
        if done and new is not None:
            respond = self.known[query_id]
            taken = {
                "collected_at": factories.rfc3339(done[-1] + self.seconds),
                "why": "asked",
                "stale": False,
            }
            of = {**respond["checkpoint"], **taken, **new.get("checkpoint", {})}
            self.known[query_id] = {**respond, **new, "checkpoint": of}

    def _not_old(self) -> None:
        if self.old:
            raise ServerNotFound("no such path")


def respond(desk: FakeCheckpoints, method: str, path: list[str], now: float) -> tuple[int, Json] | None:
    """Status and body where `path` (behind /api/v1/) is about checkpoints."""
    try:
        match method, path:
            case "GET", ["checkpoints"]:
                return 200, desk.all(now)
            case "GET", ["checkpoints", query_id]:
                return 200, desk.one(query_id, now)
            case "POST", ["checkpoints", query_id, "inventory"]:
                return 202, desk.look(query_id, now)
    except ServerNotFound as error:
        return 404, _error("not_found", str(error))
    except ServerRefused as error:
        return 409, _error(error.code, str(error))
    return None


def _error(code: str, message: str) -> Json:
    return {"error": {"code": code, "message": message, "detail": {}}}
