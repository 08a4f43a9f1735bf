"""The open incidents over time: what is stored and shown, and the trial restart."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from controlplane.errors import StoreUnavailable
from controlplane.health.verdicts import VerdictLog
from controlplane.incident_model import Incident, TrialState
from controlplane.incidents.log import TRIAL_SECONDS, IncidentLog, _Users
from controlplane.model import QueryView, RunEnd
from controlplane.supervision_model import DecisionOutcome
from tests.unit.controlplane.actions.views import AGENT, NOW, run, sample, view
from tests.unit.controlplane.incidents.failures import cause
from tests.unit.controlplane.supervision.troubles import FLAKY, entry


class Fleet:
    """Queries of a window, and the store of incidents."""

    def __init__(self) -> None:
        self.now = NOW
        self.known: dict[str, QueryView] = {}
        self.stored: dict[str, Incident] = {}
        self.is_down = False
        self.changed: list[set[str]] = []
        self.log = self.new_log()
        for number in range(4):
            self.up(f"q{number}")

    def new_log(self) -> IncidentLog:
        made = IncidentLog(self, VerdictLog(views=self.view), self.put, lambda: self.now)
        made.on_change = lambda query_ids: self.changed.append(set(query_ids))
        return made

    def put(self, changed: Sequence[Incident]) -> None:
        if self.is_down:
            raise StoreUnavailable("down")
        self.stored |= {incident.id: incident for incident in changed}

    def view(self, query_id: str) -> QueryView | None:
        return self.known.get(query_id)

    def views(self) -> list[QueryView]:
        return list(self.known.values())

    def agent_info(self, agent: str) -> Mapping[str, Any]:
        return {"app_started": {"host": "h1"}}

    def set_supervised(self, query_id: str, **changes: Any) -> None:
        known = self.known[query_id]
        self.known[query_id] = replace(known, supervised=replace(known.supervised, **changes))

    def up(self, query_id: str) -> None:
        agent = replace(AGENT, agent=f"agent-{query_id}", last_seen_at=self.now)
        runs = run(f"{query_id}-{self.now}", query_id=query_id, started_at=self.now, batches=1)
        reported = sample(1, runs.run_id, at=self.now)
        self._set(view(query_id=query_id, run=runs, agent=agent, progress=(reported,), idle_at=self.now))

    def down(self, *query_ids: str) -> None:
        for query_id in query_ids:
            known = self.known[query_id]
            assert known.run is not None
            ended = replace(known.run, ended_at=self.now, end=RunEnd.FAILED, failure_text=FLAKY)
            self._set(replace(known, run=ended))

    def _set(self, changed: QueryView) -> None:
        known = self.known.get(changed.query_id)
        supervised = known.supervised if known is not None else changed.supervised
        self.known[changed.query_id] = replace(changed, supervised=supervised)
        self.log.note((changed.query_id,))

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.log.tick()

    def membership(self, query_id: str) -> Any:
        return self.known[query_id].supervised.incident

    def trial(self) -> Any:
        (incident,) = self.stored.values()
        return incident.trial


def failed_fleet() -> Fleet:
    fleet = Fleet()
    fleet.tick()
    fleet.down("q0", "q1", "q2")
    fleet.tick()
    return fleet


def test_an_incident_is_stored_and_shown_by_its_members() -> None:
    fleet = failed_fleet()
    (incident,) = fleet.stored.values()
    assert incident.cause.value == "network" and incident.sentence.startswith("3 queries of orders failed")
    assert {fleet.membership(q).id for q in ("q0", "q1", "q2")} == {incident.id}
    assert fleet.membership("q3") is None and fleet.changed == [{"q0", "q1", "q2"}]
    fleet.up("q1")
    fleet.tick()
    assert fleet.membership("q1") is None and [m.query_id for m in fleet.stored[incident.id].down] == [
        "q0",
        "q2",
    ]


def test_what_the_store_refuses_is_found_again() -> None:
    fleet = Fleet()
    fleet.is_down = True
    fleet.down("q0", "q1", "q2")
    fleet.tick()
    assert fleet.membership("q0") is None
    fleet.is_down = False
    fleet.tick()
    assert fleet.membership("q0") is not None


def test_a_new_server_goes_on_with_the_incident_and_its_trial() -> None:
    fleet = failed_fleet()
    fleet.log.begin_trial(fleet.known["q0"], replace(entry(), id="e1"), True)
    fleet.log = fleet.new_log()
    fleet.log.load(fleet.stored.values())
    fleet.log.note(fleet.known)
    fleet.tick()
    (incident,) = fleet.stored.values()
    assert len(incident.down) == 3 and fleet.membership("q1").trial == incident.trial
    fleet.log.end_trial(replace(entry(), id="e1", outcome=DecisionOutcome.RECOVERED))
    assert fleet.trial().state is TrialState.HELPED


def test_one_restart_at_a_time_is_the_trial() -> None:
    fleet = failed_fleet()
    observed, first, second = (replace(entry(), id=f"e{i}") for i in range(3))
    fleet.log.begin_trial(fleet.known["q2"], observed, False)
    fleet.log.begin_trial(fleet.known["q0"], first, True)
    fleet.log.begin_trial(fleet.known["q1"], second, True)
    assert (fleet.trial().query_id, fleet.trial().acted) == ("q0", True)
    fleet.log.end_trial(replace(first, outcome=DecisionOutcome.FAILED_AGAIN))
    assert fleet.membership("q1").trial.state is TrialState.FAILED
    fleet.log.begin_trial(fleet.known["q0"], second, True)
    assert (fleet.trial().entry_id, fleet.trial().state) == ("e2", TrialState.TRYING)


def test_a_trial_that_was_overruled_or_has_no_result_is_given_up() -> None:
    fleet = failed_fleet()
    fleet.log.begin_trial(fleet.known["q0"], replace(entry(), id="e1"), True)
    fleet.log.end_trial(replace(entry(), id="e1", outcome=DecisionOutcome.OVERRULED))
    assert fleet.trial() is None
    fleet.log.begin_trial(fleet.known["q1"], replace(entry(), id="e3"), True)
    refused = replace(entry(), id="e3", inputs={"refused": "checkpoint_broken"})
    fleet.log.end_trial(refused)
    assert fleet.trial() is None
    fleet.log.begin_trial(fleet.known["q0"], replace(entry(), id="e2"), True)
    fleet.tick(TRIAL_SECONDS)
    assert fleet.trial() is None


def test_the_only_host_of_a_fleet_is_no_cause() -> None:
    views = [view(query_id=f"q{number}") for number in range(2)]
    of_one, of_two = _Users([(v, "h1") for v in views]), _Users(zip(views, ("h1", "h2"), strict=True))
    assert (of_two.of(cause("host:h1")), of_one.of(cause("host:h1"))) == (1, sys.maxsize)


def test_without_news_nothing_is_computed() -> None:
    fleet = failed_fleet()
    fleet.log._used = SimpleNamespace()  # type: ignore[assignment,method-assign]
    fleet.tick()
    assert len(fleet.changed) == 1
