"""Restart leases in the driver: what it may restart, how often, and until when."""

from __future__ import annotations

from typing import Any

from listeners.commands.restart_leases import FailedRun, RestartLeases

NOW = 1_000_000.0
REFUSED = "java.net.ConnectException: Connection refused"
RETRY = {
    "names": {"connection": "now", "CAST_INVALID_INPUT": "never"},
    "patterns": [["refused", "connection"]],
}


def document(seconds: float = 900.0, **grant: Any) -> dict[str, Any]:
    own = {"policy": "p", "mode": "act", "left": 2, "attempts": 0, "seen": 0, "lease": 1, "version": 1}
    delay = {"initial": 5.0, "factor": 2.0, "longest": 60.0, "jitter": 0.0}
    return {"seconds": seconds, "queries": {"q": {**own, **delay, **grant}}, "retry": RETRY}


def leases(**grant: Any) -> RestartLeases:
    made = RestartLeases(monotonic=lambda: 0.0)
    made.take(document(**grant), NOW)
    return made


def kind(of: RestartLeases, now: float) -> str | None:
    decision = of.decide("q", now)
    return decision.kind if decision is not None else None


def test_a_failed_query_is_restarted_after_the_back_off_while_the_budget_lasts() -> None:
    held = leases()
    kinds = []
    for number, wait in enumerate((5.0, 10.0, 0.0)):
        failed_at = NOW + 100 * number
        held.failed(FailedRun("q", f"r{number}", failed_at, REFUSED))
        kinds.append((kind(held, failed_at + wait - 0.1), kind(held, failed_at + wait)))
        decision = held.decide("q", failed_at + wait)
        if decision is not None and decision.kind == "restart":
            report = held.begin(decision, failed_at + wait)
            assert report is not None and report["acted"] and report["number"] == number + 1
    assert kinds == [("wait", "restart"), ("wait", "restart"), ("decline", "decline")]


def test_a_new_document_does_not_give_back_what_the_server_has_not_counted() -> None:
    held = leases(left=1)
    held.failed(FailedRun("q", "r1", NOW, REFUSED))
    decision = held.decide("q", NOW + 5)
    assert decision is not None and held.begin(decision, NOW + 5) is not None
    held.failed(FailedRun("q", "r2", NOW + 10, REFUSED))
    held.take(document(left=1), NOW + 20)  # written before the report arrived
    assert kind(held, NOW + 60) == "decline"
    held.take(document(left=1, attempts=1, seen=1), NOW + 20)
    assert kind(held, NOW + 60) == "restart"


def test_nothing_is_done_without_a_lease_after_its_end_or_by_a_clock_that_was_set_back() -> None:
    passed = [0.0]
    held = RestartLeases(monotonic=lambda: passed[0])
    held.failed(FailedRun("q", "r", NOW, REFUSED))
    assert kind(held, NOW + 5) is None
    held.take(document(seconds=60), NOW)
    assert kind(held, NOW + 5) == "restart" and kind(held, NOW + 60) is None
    passed[0] = 61.0
    assert kind(held, NOW + 5) is None
    held.take({"seconds": 900, "queries": {}}, NOW)
    assert kind(held, NOW + 5) is None


def test_what_is_never_retried_or_unknown_is_left_to_the_server_for_good() -> None:
    held = leases()
    for run, text, code in (("r1", "[CAST_INVALID_INPUT] x", "never"), ("r2", "boom", "ask")):
        held.failed(FailedRun("q", run, NOW, text))
        decision = held.decide("q", NOW + 50)
        assert decision is not None and (decision.kind, decision.code) == ("decline", code)
        assert held.declined(decision, NOW + 50)["acted"] is False
        assert kind(held, NOW + 60) is None
        again = held.take(document(), NOW + 60)  # of a server that has forgotten it
        assert [d.run.run_id for d in again] == [run] and kind(held, NOW + 70) is None


def test_a_policy_that_observes_is_reported_once() -> None:
    held = leases(mode="observe")
    held.failed(FailedRun("q", "r", NOW, REFUSED))
    decision = held.decide("q", NOW + 5)
    assert decision is not None
    report = held.begin(decision, NOW + 5)
    assert report is not None and report["acted"] is False and kind(held, NOW + 6) is None


def test_a_withdrawn_lease_ends_a_back_off() -> None:
    held = leases()
    held.failed(FailedRun("q", "r", NOW, REFUSED))
    decision = held.decide("q", NOW + 5)
    held.take({"seconds": 900, "queries": {}}, NOW + 5)
    assert decision is not None and held.begin(decision, NOW + 5) is None and not held.holds("q", NOW + 5)
