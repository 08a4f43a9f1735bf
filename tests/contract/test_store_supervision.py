"""Policies, desired states and the ledger on every store."""

from __future__ import annotations

from dataclasses import replace

from controlplane.bulk_model import BulkAction, BulkState
from controlplane.incident_model import Cause, CauseKind, Incident, IncidentMember, TrialRestart, TrialState
from controlplane.store.supervision import (
    bulk_actions,
    checkpoint_leases,
    desired,
    incidents,
    ledger,
    policies,
)
from controlplane.supervision_model import (
    Assessment,
    CheckpointLease,
    DecisionKind,
    DecisionOutcome,
    Desired,
    DesiredState,
    LedgerEntry,
)
from tests.stores import StoreHarness

ENTRY = LedgerEntry(
    id="e1",
    at=100.0,
    query_id="q1",
    app="shop",
    name=None,
    policy="payments",
    mode="act",
    trigger="failed",
    decision=DecisionKind.RESTART,
    code="due",
    why="Restart 1 of 5.",
    run_id="r1",
    condition="unknown",
    trouble_since=90.0,
    inputs={"version": 3},
    outcome=DecisionOutcome.OPEN,
)
WAIT = replace(ENTRY, id="e0", at=95.0, decision=DecisionKind.WAIT, outcome=None)
OTHER = replace(ENTRY, id="e2", at=200.0, query_id="q2", mode="observe")


def test_the_newest_document_is_in_force_and_the_others_are_kept(harness: StoreHarness) -> None:
    assert harness.read(policies.newest) is None
    first = harness.write(policies.add, "policies: []", "ada", 1.0)
    second = harness.write(policies.add, "policies:", "bob", 2.0, "why")
    assert harness.read(policies.newest) == second
    assert harness.read(policies.history) == [second, first]
    assert second.version > first.version >= 1


def test_a_query_has_one_desired_state(harness: StoreHarness) -> None:
    assert harness.read(desired.get, "q1") is None
    harness.write(desired.put, Desired("q1", DesiredState.STOPPED, "ada", 1.0, "x"))
    wanted = Desired("q1", DesiredState.RUNNING, "bob", 2.0)
    harness.write(desired.put, wanted)
    assert harness.read(desired.get, "q1") == wanted
    assert harness.read(desired.all_states) == {"q1": wanted}


def test_an_incident_is_replaced_until_it_ends_and_is_deleted_later(harness: StoreHarness) -> None:
    member = IncidentMember("q1", "shop", None, "r1", "failed", 10.0, 20.0)
    begun = Incident("i1", Cause(CauseKind.SINK, "/out"), "3 queries failed.", 10.0, (member,))
    harness.write(incidents.put, [begun, replace(begun, id="i2", began_at=5.0)])
    tried = replace(begun, trial=TrialRestart("q1", "e1", True, 30.0, TrialState.FAILED))
    harness.write(incidents.put, [tried])
    assert [i.id for i in harness.read(incidents.open_incidents)] == ["i2", "i1"]
    assert harness.read(incidents.get, "i1") == tried
    ended = replace(tried, members=(replace(member, until=40.0),), ended_at=40.0)
    harness.write(incidents.put, [ended])
    assert [i.id for i in harness.read(incidents.read, 40.0, 9)] == ["i1", "i2"]
    assert [i.id for i in harness.read(incidents.read, 41.0, 9)] == ["i2"]
    harness.write(incidents.delete_before, 41.0)
    assert harness.read(incidents.get, "i1") is None and harness.read(incidents.get, "i2") is not None


def test_a_checkpoint_has_one_holder_and_its_number_never_falls(harness: StoreHarness) -> None:
    first = CheckpointLease("s3a://b/ck", 2**40, "q1", "r1", "a1", "shop", 1.0)
    second = replace(first, number=2**40 + 1, agent="a2", taken_at=2.0, previous_app="shop")
    assert [harness.write(checkpoint_leases.put, lease) for lease in (first, second, first)] == [1, 1, 0]
    restarted = replace(second, run_id="r2")
    assert harness.write(checkpoint_leases.put, restarted)
    other = replace(first, checkpoint="file://h/ck")
    harness.write(checkpoint_leases.put, other)
    assert harness.read(checkpoint_leases.all_leases) == [other, restarted]
    harness.write(checkpoint_leases.delete, ["s3a://b/ck"])
    assert harness.read(checkpoint_leases.all_leases) == [other]


def test_the_ledger_gives_back_what_was_decided_and_what_became_of_it(harness: StoreHarness) -> None:
    for entry in (WAIT, ENTRY, OTHER):
        harness.write(ledger.insert, entry)
    assert harness.read(ledger.of_query, "q1", 0.0) == [WAIT, ENTRY]
    assert harness.read(ledger.of_query, "q1", 99.0) == [ENTRY]
    assert harness.read(ledger.open_entries) == [ENTRY, OTHER]
    ended = replace(
        ENTRY,
        acted=True,
        action_id="a1",
        inputs={"refused": "x"},
        outcome=DecisionOutcome.RECOVERED,
        outcome_at=120.0,
        outcome_why="works",
        assessment=Assessment.HELPED,
    )
    harness.write(ledger.update, ended)
    assert harness.read(ledger.read) == [OTHER, ended, WAIT]
    assert harness.read(ledger.read, "q1", 0.0, 1) == [ended]
    assert sorted(harness.read(ledger.counts), key=str) == [
        ("act", "restart", "helped", 1),
        ("act", "wait", None, 1),
        ("observe", "restart", None, 1),
    ]


def test_entries_are_deleted_by_age_unless_their_outcome_is_open(harness: StoreHarness) -> None:
    for entry in (WAIT, ENTRY, OTHER):
        harness.write(ledger.insert, entry)
    assert harness.write(ledger.delete_before, 150.0) == 1
    assert harness.read(ledger.read) == [OTHER, ENTRY]


def test_a_bulk_action_ends_once_and_gives_back_its_actions(harness: StoreHarness) -> None:
    first = BulkAction("b1", "restart", ("q1", "q2"), "ada", "ui", "why", 10.0, drain=True, max_parallel=3)
    other = replace(first, id="b2", requested_at=20.0)
    for bulk in (first, other):
        harness.write(bulk_actions.insert, bulk)
    assert harness.read(bulk_actions.running) == [first, other]
    done = replace(first, state=BulkState.HALTED, ended_at=30.0, why="q1 failed")
    assert harness.write(bulk_actions.end, done)
    assert not harness.write(bulk_actions.end, replace(done, state=BulkState.CANCELLED))
    assert harness.read(bulk_actions.get, "b1") == done and harness.read(bulk_actions.get, "b3") is None
    assert harness.read(bulk_actions.newest, 1) == [other]
    harness.write(bulk_actions.prune, 31.0)
    assert harness.read(bulk_actions.newest, 5) == [other]
