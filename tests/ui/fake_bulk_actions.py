"""Bulk actions of the fake server: the plan refuses what `refused` names, a request is taken as it is."""

from __future__ import annotations

from typing import Any

from ui.kit.answers import ClientError


class FakeBulkActions:
    """`posted`: (body, key) of each request; `bulk`: the one that was requested last."""

    def __init__(self, queries: list[dict[str, Any]]):
        self.queries = {query["query_id"]: query for query in queries}
        self.refused: dict[str, str] = {}
        self.posted: list[tuple[dict[str, Any], str]] = []
        self.bulk: dict[str, Any] = {}
        self.cancelled = False
        self.error: ClientError | None = None

    def post(self, place: str, body: dict[str, Any], key: str) -> dict[str, Any]:
        """The answer to a plan, a request or a cancel."""
        if place == "/plan":
            return self._plan(body)
        if self.error is not None:
            raise self.error
        if place.endswith("/cancel"):
            self.cancelled = True
            self.bulk |= {
                "state": "cancelled",
                "reason": "cancelled by test",
                "ended_at": "2026-11-22T10:00:00Z",
            }
        else:
            self.posted.append((body, key))
            self.bulk = self._requested(body)
        return {"bulk_action": self.bulk}

    def _plan(self, body: dict[str, Any]) -> dict[str, Any]:
        queries = [
            {
                **{name: self.queries[id][name] for name in ("query_id", "app", "name", "status")},
                "code": "refused" if id in self.refused else None,
                "refusal": self.refused.get(id),
            }
            for id in body["query_ids"]
        ]
        accepted = sum(query["refusal"] is None for query in queries)
        return {"action": body["action"], "accepted": accepted, "queries": queries}

    def _requested(self, body: dict[str, Any]) -> dict[str, Any]:
        known = [self.queries[id] for id in body["query_ids"] if id not in self.refused]
        queries = [
            {
                "query_id": query["query_id"],
                "app": query["app"],
                "name": query["name"],
                "state": "waiting" if place else "running",
                "reason": "",
                "action_id": None,
            }
            for place, query in enumerate(known)
        ]
        return {
            "id": "b1",
            "action": body["action"],
            "state": "running",
            "reason": "",
            "actor": "test",
            "ended_at": None,
            "counts": {"running": 1, "waiting": len(queries) - 1},
            "queries": queries,
        }
