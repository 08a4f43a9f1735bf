"""Checkpoints of the fake server: what is known of them, and inventories that take a moment."""

from __future__ import annotations

from typing import Any

from tests.ui import checkpoint_factories, factories
from ui.kit.answers import ServerNotFound, ServerRefused

Json = dict[str, Any]


class FakeCheckpoints:
    """Scripted checkpoints.

    `requests`: (query id, time) of each requested inventory. `results`: what an inventory finds, by query id;
    None: none ever arrives. `refusal`: why nobody can take one.
    `rewinds`: (query id, batch to run next) of each requested preview of a rewind. `changes`: (kind, body) of each
    requested change. `running`: the server refuses changes. `unsupported`: a server without checkpoints.
    """

    def __init__(self, queries: list[Json], now: float):
        self.known = checkpoint_factories.fleet(queries, now)
        self.requests: list[tuple[str, float]] = []
        self.seconds = 0.6  # that an inventory takes
        self.results: dict[str, Json | None] = {}
        self.refusal = ""
        self.rewinds: list[tuple[str, int | None]] = []
        self.changes: list[tuple[str, Json]] = []
        self.running = False
        self.unsupported = False

    def list(self, now: float) -> Json:
        self._check_supported()
        items = [self.get(query_id, now)["checkpoint"] for query_id in self.known]
        return {"as_of": factories.rfc3339(now), "checkpoints": items}

    def get(self, query_id: str, now: float) -> Json:
        self._check_supported()
        if query_id not in self.known:
            raise ServerNotFound("no such query")
        self._take(query_id, now)
        return self.known[query_id]

    def request_inventory(self, query_id: str, now: float) -> Json:
        self._check_supported()
        if self.refusal:
            raise ServerRefused(self.refusal, "no_collector")
        self.requests.append((query_id, now))
        return {"requested": True, "by": "agent"}

    def planned_change(self, query_id: str, kind: str, params: list[tuple[str, Any]], now: float) -> Json:
        """A preview with the server's refusal, if it would refuse."""
        refusal = {"code": "still_running", "reason": "the query is running; stop it first"}
        found = (
            self.repairs([value for _, value in params])
            if kind == "repair"
            else self.rewind(query_id, dict(params).get("resume_at"), now)
        )
        return {**found, "refusal": refusal if self.running else None}

    def repairs(self, confirmed: list[str]) -> Json:
        """R-OFF-1 needs a confirmation and is the plan then; R-META-1 is not possible."""
        consequences = ["batch 6 may hold more input than before"]
        title = "remove offsets/6: batch 6 was never committed and is planned again"
        offer: Json = {"id": "R-OFF-1", "title": title, "possible": True, "needs_confirmation": True}
        offer |= {"blocked": None, "consequences": consequences, "selected": "R-OFF-1" in confirmed}
        blocked: Json = {"id": "R-META-1", "title": "write the query's id into metadata", "possible": False}
        blocked |= {"needs_confirmation": False, "consequences": [], "selected": False}
        blocked |= {"blocked": "the query id is not known"}
        files = {"files_removed": 1, "files_written": 0}
        plan = {"title": title, "consequences": consequences, **files} if offer["selected"] else None
        command = "controlplane repair s3://lake/orders --confirm R-OFF-1"
        found = {"verdict": "broken", "offers": [offer, blocked], "plan": plan, "command": command}
        return {**found, "unresolved": ["a whole partition of the state is gone"], "rewind_to": 4}

    def rewind(self, query_id: str, resume_at: int | None, now: float) -> Json:
        """Batches 5 and 4 can run next, 3 cannot; a refusal is of the whole checkpoint."""
        if self.refusal:
            raise ServerRefused(self.refusal, "cannot_rewind")
        self.rewinds.append((query_id, resume_at))
        command = f"controlplane rewind s3://lake/orders {'--list' if resume_at is None else f'--resume-at {resume_at}'}"
        found: Json = {"next_batch": 6, "batches": [], "plan": None, "output": None, "command": command}
        if resume_at is not None:
            consequences = [
                "batches 4 to 5 are forgotten",
                "Kafka: rows already delivered are delivered again",
            ]
            files = {"files_removed": 4, "files_written": 0, "rows_again": 2400}
            title = f"batch {resume_at} runs next, instead of batch 6"
            plan = {"resume_at": resume_at, "title": title, "consequences": consequences, **files}
            return {**found, "plan": plan}
        for batch in (5, 4, 3):
            reason = "offsets/2 does not exist" if batch == 3 else None
            at = factories.rfc3339(now - 60 * (6 - batch))
            seen = {"batch": batch, "committed_at": at, "input_rows": 1200, "possible": reason is None}
            found["batches"].append({**seen, "reason": reason})
        return found

    def _take(self, query_id: str, now: float) -> None:
        """Apply the inventory that has arrived by now, if there is one."""
        done = [at for identity, at in self.requests if identity == query_id and now - at >= self.seconds]
        new = self.results.get(query_id, {})
        if done and new is not None:
            respond = self.known[query_id]
            taken = {
                "collected_at": factories.rfc3339(done[-1] + self.seconds),
                "why": "asked",
                "stale": False,
            }
            of = {**respond["checkpoint"], **taken, **new.get("checkpoint", {})}
            self.known[query_id] = {**respond, **new, "checkpoint": of}

    def _check_supported(self) -> None:
        if self.unsupported:
            raise ServerNotFound("no such path")


def respond(
    fake: FakeCheckpoints,
    method: str,
    path: list[str],
    now: float,
    params: dict[str, list[str]] | None = None,
) -> tuple[int, Json] | None:
    """Status and body where `path` (behind /api/v1/) is about checkpoints."""
    try:
        match method, path:
            case "GET", ["checkpoints"]:
                return 200, fake.list(now)
            case "GET", ["checkpoints", query_id]:
                return 200, fake.get(query_id, now)
            case "GET", ["checkpoints", query_id, "rewind" | "repair" as kind]:
                given = [(name, value) for name, values in (params or {}).items() for value in values]
                numbers = [(name, int(value) if name == "resume_at" else value) for name, value in given]
                return 200, fake.planned_change(query_id, kind, numbers, now)
            case "POST", ["checkpoints", query_id, "inventory"]:
                return 202, fake.request_inventory(query_id, now)
    except ServerNotFound as error:
        return 404, _error("not_found", str(error))
    except ServerRefused as error:
        return 409, _error(error.code, str(error))
    return None


def _error(code: str, message: str) -> Json:
    return {"error": {"code": code, "message": message, "detail": {}}}
