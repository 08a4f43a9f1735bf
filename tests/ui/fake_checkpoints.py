"""Checkpoints of the fake server: what is known of them, and inventories that take a moment."""

from __future__ import annotations

from typing import Any

from tests.ui import checkpoint_factories, factories
from ui.kit.client import ServerNotFound, ServerRefused

Json = dict[str, Any]


class FakeCheckpoints:
    """Scripted checkpoints.

    `requests`: (query id, time) of each requested inventory. `results`: what an inventory finds, by query id;
    None: none ever arrives. `refusal`: why nobody can take one.
    `rewinds`: (query id, batch to run next) of each requested preview of a rewind. `unsupported`: a server without checkpoints.
    """

    def __init__(self, queries: list[Json], now: float):
        self.known = checkpoint_factories.fleet(queries, now)
        self.requests: list[tuple[str, float]] = []
        self.seconds = 0.6  # that an inventory takes
        self.results: dict[str, Json | None] = {}
        self.refusal = ""
        self.rewinds: list[tuple[str, int | None]] = []
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
            case "GET", ["checkpoints", query_id, "rewind"]:
                resume_at = (params or {}).get("resume_at")
                return 200, fake.rewind(query_id, int(resume_at[0]) if resume_at else None, now)
            case "POST", ["checkpoints", query_id, "inventory"]:
                return 202, fake.request_inventory(query_id, now)
    except ServerNotFound as error:
        return 404, _error("not_found", str(error))
    except ServerRefused as error:
        return 409, _error(error.code, str(error))
    return None


def _error(code: str, message: str) -> Json:
    return {"error": {"code": code, "message": message, "detail": {}}}
