"""The open incidents of the fleet: found at each tick, stored, shown in the window, and tried by one restart at a time.

Only queries whose status or desired state changed are looked at. Ticked by `controlplane.supervision.service` before the
supervisor, which holds back restarts of members and reports what became of the trial.
"""

from __future__ import annotations

import logging
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

from controlplane.errors import ControlPlaneError
from controlplane.health.verdicts import QueryVerdict
from controlplane.incident_model import (
    Cause,
    CauseKind,
    Incident,
    IncidentMembership,
    TrialRestart,
    TrialState,
)
from controlplane.incidents.causes import UNDECIDED, failure_of, uses
from controlplane.incidents.engine import QUIET_SECONDS, QueryFailure, advance, correlate, with_recovered
from controlplane.model import QueryStatus, QueryView
from controlplane.supervision_model import DecisionOutcome, LedgerEntry

log = logging.getLogger(__name__)
#: A trial without a result after this time is given up, so that another member is tried.
TRIAL_SECONDS = 900.0
_RESULTS = {
    DecisionOutcome.RECOVERED: TrialState.HELPED,
    DecisionOutcome.RECOVERED_WITHOUT_US: TrialState.HELPED,
    DecisionOutcome.FAILED_AGAIN: TrialState.FAILED,
}


class IncidentViews(Protocol):
    """The part of `controlplane.events.window.Window` that incidents use."""

    def view(self, query_id: str) -> QueryView | None: ...

    def views(self) -> list[QueryView]: ...

    def agent_info(self, agent: str) -> Mapping[str, Any]: ...

    def set_supervised(self, query_id: str, **changes: Any) -> None: ...


class IncidentVerdicts(Protocol):
    """The part of `controlplane.health.verdicts.VerdictLog` that incidents use."""

    def verdict_of(self, view: QueryView, now: float) -> QueryVerdict: ...

    def since(self, query_id: str, status: QueryStatus, now: float) -> float: ...


class IncidentLog:
    """The open incidents. `note` is thread-safe; the rest is called in the supervisor's thread."""

    def __init__(
        self,
        window: IncidentViews,
        verdicts: IncidentVerdicts,
        put: Callable[[Sequence[Incident]], None],
        clock: Callable[[], float],
    ):
        """`put` stores incidents and returns after the commit."""
        self._window, self._verdicts, self._put, self._clock = window, verdicts, put, clock
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._down: dict[str, QueryFailure] = {}
        self._open: dict[str, Incident] = {}
        self._shown: dict[str, IncidentMembership] = {}
        #: Called with the queries whose incident, or the trial of it, has changed.
        self.on_change: Callable[[Iterable[str]], object] = lambda query_ids: None

    def load(self, incidents: Iterable[Incident]) -> None:
        """Take over the open incidents of the store."""
        self._open = {incident.id: incident for incident in incidents}
        self._show()

    def note(self, query_ids: Iterable[str]) -> None:
        """Have the next tick look at these queries."""
        with self._lock:
            self._changed.update(query_ids)

    def tick(self) -> None:
        """Find new incidents, and what changed in the open ones."""
        now = self._clock()
        with self._lock:
            changed, self._changed = self._changed, set()
        news = [query_id for query_id in changed if self._look(query_id, now)]
        if not news and not self._is_due(now):
            return
        try:
            self._advance(now)
        except ControlPlaneError as error:
            log.warning("incidents are not stored: %s", error)
            self._down = {query_id: f for query_id, f in self._down.items() if query_id not in changed}
            self.note(changed)

    def begin_trial(self, view: QueryView, entry: LedgerEntry, acts: bool) -> None:
        """A member of an incident is about to be restarted: the others wait for the result. Returns after the commit.

        `acts`: the entry's policy carries its decisions out.
        """
        membership = view.supervised.incident
        incident = self._open.get(membership.id) if membership is not None else None
        if incident is None or (incident.trial is not None and not _may_follow(incident.trial, view, acts)):
            return
        self._set_trial(incident, TrialRestart(view.query_id, entry.id, acts, self._clock()))

    def end_trial(self, entry: LedgerEntry) -> None:
        """The outcome of a restart is known; where it was the trial of an incident, it decides about the others."""
        for incident in list(self._open.values()):
            trial = incident.trial
            if trial is not None and trial.entry_id == entry.id and trial.state is TrialState.TRYING:
                refused = "refused" in entry.inputs  # for a reason of its own, so nothing was tried
                state = _RESULTS.get(entry.outcome) if entry.outcome is not None and not refused else None
                ended = replace(trial, state=state, at=self._clock()) if state is not None else None
                self._set_trial(incident, ended)

    # -- finding --------------------------------------------------------------------------------------

    def _look(self, query_id: str, now: float) -> bool:
        """Judge a query; whether that is news."""
        known, view = self._down.get(query_id), self._window.view(query_id)
        found = self._failure(view, now, known) if view is not None else None
        if found is None:
            return self._down.pop(query_id, None) is not None
        self._down[query_id] = found
        return found != known

    def _failure(self, view: QueryView, now: float, known: QueryFailure | None) -> QueryFailure | None:
        judged = self._verdicts.verdict_of(view, now)
        status = judged.verdict.status
        if status in UNDECIDED:
            return known
        since = self._verdicts.since(view.query_id, status, now)
        found = failure_of(judged.context, status, since, self._host(view))
        if found is None or known is None or known.member.run_id != found.member.run_id:
            return found
        return replace(found, member=replace(found.member, began_at=known.member.began_at))

    def _host(self, view: QueryView) -> str:
        info = self._window.agent_info(view.agent.agent) if view.agent is not None else {}
        return str((info.get("app_started") or {}).get("host") or "")

    def _is_due(self, now: float) -> bool:
        return any(
            _is_overdue(incident.trial, now)
            or all(m.until is not None and m.until + QUIET_SECONDS <= now for m in incident.members)
            for incident in self._open.values()
        )

    def _advance(self, now: float) -> None:
        for incident in list(self._open.values()):
            if _is_overdue(incident.trial, now):
                self._set_trial(incident, None)
        incidents = list(self._open.values())
        found = correlate(with_recovered(self._down, incidents, now), _Users(self._used()).of)
        changed = advance(incidents, found, lambda: str(uuid.uuid4()), now)
        if changed:
            self._store(changed)

    def _used(self) -> Iterable[tuple[QueryView, str]]:
        """The queries that run or are down, with their hosts."""
        for view in self._window.views():
            runs = view.run is not None and view.run.ended_at is None and view.retired_at is None
            if runs or view.query_id in self._down:
                yield view, self._host(view)

    # -- storing and showing --------------------------------------------------------------------------

    def _set_trial(self, incident: Incident, trial: TrialRestart | None) -> None:
        self._store([replace(incident, trial=trial)])

    def _store(self, changed: Sequence[Incident]) -> None:
        self._put(changed)
        for incident in changed:
            if incident.ended_at is not None:
                log.info("incident %s ended: %s", incident.id, incident.sentence)
                self._open.pop(incident.id, None)
                continue
            if incident.id not in self._open:
                log.warning("incident %s began: %s", incident.id, incident.sentence)
            self._open[incident.id] = incident
        self._show()

    def _show(self) -> None:
        """Bring the window up to date."""
        wanted = {
            member.query_id: IncidentMembership(i.id, i.cause, i.sentence, i.trial)
            for i in self._open.values()
            for member in i.down
        }
        changed = {q for q in wanted.keys() | self._shown.keys() if wanted.get(q) != self._shown.get(q)}
        for query_id in changed:
            self._window.set_supervised(query_id, incident=wanted.get(query_id))
        self._shown = wanted
        if changed:
            self.on_change(changed)


class _Users:
    """How many queries use a host, source, sink or catalog; counted when first asked."""

    def __init__(self, used: Iterable[tuple[QueryView, str]]):
        self._used = used

    @cached_property
    def _counts(self) -> Counter[Cause]:
        return Counter(cause for view, host in self._used for cause in set(uses(view, host)))

    def of(self, cause: Cause) -> int:
        """The only host of a fleet is no more of a cause than the fleet: it counts as used by all that there is."""
        hosts = sum(known.kind is CauseKind.HOST for known in self._counts)
        alone = cause.kind is CauseKind.HOST and hosts < 2
        return sys.maxsize if alone else self._counts[cause]


def _may_follow(trial: TrialRestart, view: QueryView, acts: bool) -> bool:
    """Whether a restart of the query replaces the trial: the next one of the same query, or the first that is carried out."""
    again = trial.query_id == view.query_id and trial.state is TrialState.FAILED
    return again or (acts and not trial.acted)


def _is_overdue(trial: TrialRestart | None, now: float) -> bool:
    return trial is not None and trial.state is TrialState.TRYING and now - trial.at >= TRIAL_SECONDS
