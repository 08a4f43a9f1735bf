"""Leases under which this driver restarts its failed queries itself, also while the server is away. Pure state.

The server sends a document for all queries of the driver; it replaces the one before. A query in it is this driver's to
decide until the document expires: restart it after the back-off while its budget lasts, or decline, after which only
the server decides about that run. `listeners.commands.restarter` carries the decisions out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from listeners.protocol.restart_rules import NOW, RetryNames, restart_delay

#: Restarts that the server may not have counted yet are remembered for this long.
SPENT_SECONDS = 86400.0
MAX_FAILURES = 256


@dataclass(frozen=True)
class FailedRun:
    """The end of a run by a failure. `at`: Unix seconds."""

    query_id: str
    run_id: str
    at: float
    text: str = ""
    error_class: Optional[str] = None


@dataclass(frozen=True)
class DriverDecision:
    """What the driver decides about a failed run: `wait` until `due_at`, `restart`, or `decline` for the reason `code`."""

    kind: str
    code: str
    run: FailedRun
    due_at: float = 0.0
    condition: str = ""


@dataclass
class _Restart:
    number: int
    at: float


@dataclass
class RestartLeases:
    """The newest document and the failed runs. Not thread-safe; `now` is Unix seconds.

    A clock that was set back does not extend a lease: `expired` also looks at the monotonic clock.
    """

    document: Mapping[str, Any] = field(default_factory=dict)
    expires_at: float = 0.0
    #: `time.monotonic`, or a test's clock.
    monotonic: Any = time.monotonic

    def __post_init__(self) -> None:
        self._expires_monotonic = 0.0
        self._retry = RetryNames({})
        self._failures: dict[str, FailedRun] = {}
        self._declined: dict[str, DriverDecision] = {}
        self._spent: dict[str, list[_Restart]] = {}
        self._number = 0

    def take(self, document: Mapping[str, Any], now: float) -> list[DriverDecision]:
        """Replace the leases; returns what was declined before, so that a new server learns of it."""
        seconds = max(0.0, min(float(document.get("seconds") or 0.0), 86400.0))
        self.document, self.expires_at = document, now + seconds
        self._expires_monotonic = self.monotonic() + seconds
        self._retry = RetryNames.of_document(document.get("retry") or {})
        return [d for query_id, d in self._declined.items() if self._grant(query_id, now) is not None]

    def failed(self, run: FailedRun) -> None:
        """Note that a run has failed."""
        self._failures.pop(run.query_id, None)
        self._failures[run.query_id] = run
        while len(self._failures) > MAX_FAILURES:
            del self._failures[next(iter(self._failures))]

    def forget(self, query_id: str) -> None:
        """Forget the failure of a query: it runs again, or somebody stopped it."""
        self._failures.pop(query_id, None)
        self._declined.pop(query_id, None)

    @property
    def failures(self) -> list[FailedRun]:
        """The failed runs that were not forgotten."""
        return list(self._failures.values())

    def decide(self, query_id: str, now: float) -> DriverDecision | None:
        """What to do about a failed run now; None where that is for the server to decide."""
        run, grant = self._failures.get(query_id), self._grant(query_id, now)
        if run is None or grant is None:
            return None
        declined = self._declined.get(query_id)
        if declined is not None and declined.run.run_id == run.run_id:
            return None
        judged = self._retry.judge(run.text, run.error_class)
        if judged.retry != NOW:
            return self._decline(run, judged.retry, judged.condition)
        uncounted = self._uncounted(query_id, grant, now)
        if int(grant.get("left") or 0) - uncounted <= 0:
            return self._decline(run, "budget_spent", judged.condition)
        attempts = int(grant.get("attempts") or 0) + uncounted
        rule = [float(grant[name]) for name in ("initial", "factor", "longest", "jitter")]
        due_at = run.at + restart_delay(rule[0], rule[1], rule[2], rule[3], attempts, query_id)
        if due_at > now:
            return DriverDecision("wait", "backoff", run, due_at, judged.condition)
        return DriverDecision("restart", "due", run, due_at, judged.condition)

    def holds(self, query_id: str, now: float) -> bool:
        """Whether the query is this driver's to restart."""
        return self._grant(query_id, now) is not None

    def begin(self, decision: DriverDecision, now: float) -> dict[str, Any] | None:
        """Count a restart and return its report; None where the lease does not hold any more."""
        grant = self._grant(decision.run.query_id, now)
        if grant is None:
            return None
        self._number += 1
        acts = grant.get("mode") == "act"
        if acts:
            self._failures.pop(decision.run.query_id, None)
            self._spent.setdefault(decision.run.query_id, []).append(_Restart(self._number, now))
        else:
            self._declined[decision.run.query_id] = decision
        return dict(self._report(decision, grant, now), acted=acts)

    def declined(self, decision: DriverDecision, now: float) -> dict[str, Any]:
        """The report of a decision to leave a run to the server, from now on."""
        self._declined[decision.run.query_id] = decision
        return dict(self._report(decision, self._grant(decision.run.query_id, now) or {}, now), acted=False)

    def _decline(self, run: FailedRun, code: str, condition: str) -> DriverDecision:
        return DriverDecision("decline", code, run, condition=condition)

    def _grant(self, query_id: str, now: float) -> Mapping[str, Any] | None:
        if now >= self.expires_at or self.monotonic() >= self._expires_monotonic:
            return None
        found = (self.document.get("queries") or {}).get(query_id)
        return found if isinstance(found, dict) else None

    def _uncounted(self, query_id: str, grant: Mapping[str, Any], now: float) -> int:
        """Own restarts that are not in the grant's figures: their reports have not reached the server."""
        recent = [r for r in self._spent.get(query_id, []) if now - r.at < SPENT_SECONDS]
        self._spent[query_id] = recent
        return sum(restart.number > int(grant.get("seen") or 0) for restart in recent)

    def _report(self, decision: DriverDecision, grant: Mapping[str, Any], now: float) -> dict[str, Any]:
        return {
            "id": decision.run.query_id,
            "runId": decision.run.run_id,
            "decisionId": str(uuid.uuid4()),
            "decision": decision.kind,
            "code": decision.code,
            "condition": decision.condition,
            "number": self._number,
            "policy": grant.get("policy"),
            "mode": grant.get("mode"),
            "version": grant.get("version"),
            "lease": grant.get("lease"),
            "failedSecondsAgo": round(max(0.0, now - decision.run.at), 3),
        }
