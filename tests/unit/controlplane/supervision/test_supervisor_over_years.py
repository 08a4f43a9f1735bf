"""Years of random failures under policies: what must never happen does not happen.

A few query-years in `make test`, many in the soak.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from controlplane.incident_model import TrialState
from controlplane.supervision import policy_file
from controlplane.supervision.policies import RetryClass
from controlplane.supervision_model import DecisionKind, DecisionOutcome, DesiredState, LedgerEntry
from tests.unit.controlplane.supervision.simulated_drivers import DrivenFleet
from tests.unit.controlplane.supervision.simulated_fleet import SimulatedFleet, fleet

ACT = """\
policies:
  - name: all
    mode: {mode}
    restart:
      backoff: {{initial: 10s, max: 5m}}
      budget: {{restarts: {restarts}, per: 1h, reset_after_healthy: 30m}}
"""
RESTARTS, WINDOW, HEALTHY = 3, 3600.0, 1800.0


def lived(seed: int, mode: str = "act", years: float = 0.2) -> SimulatedFleet:
    world = fleet(ACT.format(mode=mode, restarts=RESTARTS), seed)
    world.run(years)
    return world


def driven(seed: int, mode: str = "act", years: float = 0.12) -> DrivenFleet:
    text = ACT.format(mode=mode, restarts=RESTARTS) + "      in_driver: true\n"
    policies, mistakes = policy_file.load(text)
    assert policies is not None, mistakes
    world = DrivenFleet(seed, policies)
    world.run(years)
    return world


def by_policies(world: SimulatedFleet) -> list[tuple[float, object, object]]:
    return [asked for asked in world.requests if asked[2].actor.startswith("policy:")]


def check(world: SimulatedFleet) -> None:
    """Everything that must hold for a fleet whose policy acts."""
    _never_more_than_the_budget(world)
    _a_person_wins(world)
    _never_is_never_retried(world)
    _the_ledger_has_everything(world)
    _one_of_an_incident_is_tried(world)
    _nothing_is_forgotten(world)


def _restarts(world: SimulatedFleet) -> dict[str, list[LedgerEntry]]:
    found = defaultdict(list)
    for entry in world.ledger.values():
        if entry.acted:
            found[entry.query_id].append(entry)
    return found


def _never_more_than_the_budget(world: SimulatedFleet) -> None:
    """Counted anew here: restarts in each window, but for those before a healthy time or a person's start."""
    good = (DecisionOutcome.RECOVERED, DecisionOutcome.RECOVERED_WITHOUT_US)
    for query_id, found in _restarts(world).items():
        entries = sorted(found, key=lambda entry: entry.at)
        resets = [at for at, reset in world.resets if reset == query_id]
        for before, after in pairwise(entries):
            healthy = after.trouble_since - (before.outcome_at or 0.0) if before.outcome in good else 0.0
            if healthy >= HEALTHY:
                resets.append(after.trouble_since)
        for entry in entries:
            since = max([entry.at - WINDOW, *(at for at in resets if at <= entry.at)])
            assert sum(since < other.at <= entry.at for other in entries) <= RESTARTS


def _a_person_wins(world: SimulatedFleet) -> None:
    for _, view, _wanted in by_policies(world):
        assert view.supervised.state is DesiredState.RUNNING
        assert view.action is None, "two actions at once"
    assert world.unwanted == 0, "a query runs although a person stopped it"


def _never_is_never_retried(world: SimulatedFleet) -> None:
    for _, view, _wanted in by_policies(world):
        assert "CAST_INVALID_INPUT" not in view.run.failure_text
        assert "MISSING_STATE_DIRECTORY" not in view.run.failure_text
    retried = {e.inputs["retry"] for e in world.ledger.values() if e.decision is DecisionKind.RESTART}
    assert RetryClass.NEVER not in retried and {"now", "once", "unknown"} <= retried


def _the_ledger_has_everything(world: SimulatedFleet) -> None:
    asked = by_policies(world)
    decided = [e for e in world.ledger.values() if e.decision is DecisionKind.RESTART]
    entries = [e for e in decided if "by" not in e.inputs]
    assert [(at, view.query_id) for at, view, _ in asked] == [(e.at, e.query_id) for e in entries]
    assert all(e.why and e.code and e.policy == "all" for e in world.ledger.values())
    acted = [e for e in decided if e.acted]
    assert acted and all(e.outcome is not None for e in acted)


def _one_of_an_incident_is_tried(world: SimulatedFleet) -> None:
    """While a trial is open or has failed, policies restart no other member; and they do once it has helped."""
    for _, view, _wanted in by_policies(world):
        trial = view.supervised.incident.trial if view.supervised.incident is not None else None
        assert trial is None or trial.query_id == view.query_id or trial.state is TrialState.HELPED
    held = [e for e in world.ledger.values() if e.code == "incident"]
    assert held and {e.decision for e in held} == {DecisionKind.HOLD}
    assert world.trials == set(TrialState)
    assert any(incident.ended_at is not None for incident in world.incidents_seen.values())


def _nothing_is_forgotten(world: SimulatedFleet) -> None:
    """Each query that failed and is wanted has a restart under way, or a policy has given up on it."""
    for view in world.views():
        down = view.run.ended_at is not None and view.run.end == "failed" and view.action is None
        if down and view.supervised.state is DesiredState.RUNNING:
            last = world.history_of(view.query_id, 0.0)[-1]
            decided = last.code == "incident" or last.decision in (DecisionKind.WAIT, DecisionKind.RESTART)
            assert decided or view.supervised.hold is not None


@pytest.mark.parametrize("seed", range(3))
def test_years_of_random_failures(seed: int) -> None:
    check(lived(seed))


def test_a_policy_that_observes_never_acts_and_its_ledger_is_as_full() -> None:
    world = lived(7, mode="observe")
    assert by_policies(world) == [] and world.holds == 0
    kinds = {entry.decision for entry in world.ledger.values()}
    assert {DecisionKind.RESTART, DecisionKind.PAGE, DecisionKind.WAIT} <= kinds
    assert not any(entry.acted for entry in world.ledger.values())


def test_drivers_under_leases_restart_and_never_beside_the_server() -> None:
    _check_drivers(driven(1))


def _check_drivers(world: DrivenFleet) -> None:
    _never_more_than_the_budget(world)
    _never_is_never_retried(world)
    assert world.unwanted == 0, "a query runs although a person stopped it"
    for found in world.deciders.values():
        assert len(set(found)) <= 1 and found.count("driver") <= 1, "two deciders"
    settled = [found for found in world.driven if found[0] < world.now - 2 * 86400.0]
    entries = {(e.query_id, e.run_id) for e in world.ledger.values() if "by" in e.inputs}
    assert settled and {(query_id, run_id) for _, query_id, run_id, _ in settled} <= entries
    assert any(e.decision is DecisionKind.RESTART and "by" not in e.inputs for e in world.ledger.values())
    for at, query_id, run_id, _ in world.driven:
        text = world.texts[run_id]
        assert "ConnectException" in text, (at, query_id, text)


def test_a_driver_under_a_policy_that_observes_only_reports() -> None:
    world = driven(5, mode="observe", years=0.1)
    assert world.driven and not any(acted for *_, acted in world.driven)
    assert by_policies(world) == [] and not any(e.acted for e in world.ledger.values())
    considered = [e for e in world.ledger.values() if "by" in e.inputs]
    assert considered and {e.mode for e in considered} == {"observe"}


@pytest.mark.soak
def test_years_of_drivers_under_leases() -> None:
    for seed in range(200, 230):
        _check_drivers(driven(seed, years=5.0))


@pytest.mark.soak
def test_thousands_of_query_years() -> None:
    for seed in range(100, 150):
        check(lived(seed, years=10.0))
