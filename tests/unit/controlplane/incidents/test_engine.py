"""Incidents from failures: what belongs together, and what must not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.incident_model import Cause, Incident, TrialRestart, TrialState
from controlplane.incidents.engine import (
    MIN_QUERIES,
    QUIET_SECONDS,
    WINDOW_SECONDS,
    QueryFailure,
    advance,
    correlate,
    with_recovered,
)
from tests.unit.controlplane.actions.views import NOW
from tests.unit.controlplane.incidents.failures import cause, failure

CAUSES = (
    "host:h1",
    "driver:d1",
    "driver:d2",
    "sink:/out",
    "source:topic t",
    "condition:network",
    "condition:x",
)
SINK = cause("sink:/out")


def few(_: Cause) -> int:
    return 0


@st.composite
def fleets(draw: st.DrawFn) -> list[QueryFailure]:
    """Failures of up to 12 queries within half an hour, each with up to three causes."""
    return [
        failure(
            f"q{number}",
            *draw(st.sets(st.sampled_from(CAUSES), max_size=3)),
            after=draw(st.sampled_from((0.0, 5.0, 400.0, 700.0, 1500.0))),
            driver=draw(st.sampled_from(("d1", "d2"))),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


def groups(found: dict[Cause, tuple[QueryFailure, ...]]) -> dict[Cause, set[str]]:
    return {shared: {f.member.query_id for f in failures} for shared, failures in found.items()}


class Fleet:
    """Incidents over time: queries go down and up."""

    def __init__(self) -> None:
        self.open: list[Incident] = []
        self.ended: list[Incident] = []
        self._ids = map(str, count())

    def see(self, failures: Iterable[QueryFailure], now: float = NOW) -> list[Incident]:
        by_query = {f.member.query_id: f for f in failures}
        found = correlate(with_recovered(by_query, self.open, now), few)
        changed = {i.id: i for i in advance(self.open, found, lambda: next(self._ids), now)}
        after = {**{i.id: i for i in self.open}, **changed}
        self.ended += [i for i in after.values() if i.ended_at is not None]
        self.open = [i for i in after.values() if i.ended_at is None]
        return list(changed.values())


@settings(max_examples=60, deadline=None)
@given(fleets(), st.randoms(use_true_random=False))
def test_members_do_not_depend_on_the_order_of_arrival(failures: list[QueryFailure], random: object) -> None:
    fleet, arrived = Fleet(), list(failures)
    random.shuffle(arrived)  # type: ignore[attr-defined]
    for number in range(len(arrived) + 1):
        fleet.see(arrived[:number])
        down = [m.query_id for incident in fleet.open for m in incident.down]
        assert len(down) == len(set(down)), "a query is down in two incidents"
    at_once = groups(correlate(failures, few))
    assert {i.cause: {m.query_id for m in i.members} for i in fleet.open} == at_once


@settings(max_examples=40, deadline=None)
@given(fleets())
def test_failures_without_a_shared_cause_are_no_incident(failures: list[QueryFailure]) -> None:
    seen: set[Cause] = set()
    unrelated = []
    for each in failures:
        unrelated.append(replace(each, causes=each.causes - seen))
        seen |= each.causes
    assert correlate(unrelated, few) == {}


def outage(number: int, *causes: str, step: float = 10.0) -> list[QueryFailure]:
    return [failure(f"q{i}", *(causes or ("sink:/out",)), after=i * step) for i in range(number)]


def test_three_queries_within_the_window_are_one_incident() -> None:
    assert groups(correlate(outage(3), few)) == {SINK: {"q0", "q1", "q2"}}
    assert correlate(outage(MIN_QUERIES - 1), few) == {}
    assert correlate(outage(4, step=WINDOW_SECONDS / 2 + 1), few) == {}


def test_what_failed_long_before_is_not_part_of_it_and_later_failures_are() -> None:
    early = failure("early", "sink:/out", after=-2 * WINDOW_SECONDS)
    late = failure("late", "sink:/out", after=3 * WINDOW_SECONDS)
    assert groups(correlate([late, *outage(3), early], few)) == {SINK: {"q0", "q1", "q2", "late"}}


def test_the_end_of_a_driver_needs_two_queries_and_explains_them_before_a_condition() -> None:
    with_driver = outage(2, "driver:d1", "condition:network")
    others = [failure(f"o{i}", "condition:network") for i in range(3)]
    found = groups(correlate([*others, *with_driver], few))
    assert found == {cause("driver:d1"): {"q0", "q1"}, cause("condition:network"): {"o0", "o1", "o2"}}
    assert correlate(with_driver[:1], few) == {}


def test_what_fails_in_one_driver_only_is_no_incident_of_a_sink() -> None:
    assert correlate([failure(f"q{i}", "sink:/out", driver="d1") for i in range(5)], few) == {}


def test_a_host_explains_several_drivers_and_never_one() -> None:
    down = [failure(f"q{i}", "host:h1", f"driver:d{i % 2}", driver=f"d{i % 2}") for i in range(4)]
    assert set(correlate(down, few)) == {cause("host:h1")}
    of_one = [failure(f"q{i}", "host:h1", "driver:d0", driver="d0") for i in range(4)]
    assert set(correlate(of_one, few)) == {cause("driver:d0")}


def test_a_sink_that_most_of_its_queries_still_use_is_not_the_cause() -> None:
    assert set(correlate(outage(3), lambda _: 6)) == {SINK}
    assert correlate(outage(3), lambda _: 7) == {}


def test_an_incident_keeps_its_id_and_ends_when_all_were_up_for_a_while() -> None:
    fleet, down = Fleet(), outage(3)
    (begun,) = fleet.see(down)
    assert fleet.see(down) == [] and begun.ended_at is None
    (fewer,) = fleet.see(down[:1], NOW + 60)
    assert (fewer.id, [m.query_id for m in fewer.down]) == (begun.id, ["q0"])
    assert (
        fewer.sentence
        == "3 queries of 3 applications that write to /out failed within 20 s. 2 of them run again."
    )
    fleet.see([], NOW + 90)
    assert fleet.see([], NOW + 90 + QUIET_SECONDS - 1) == [] and len(fleet.open) == 1
    (ended,) = fleet.see([], NOW + 90 + QUIET_SECONDS)
    assert ended.ended_at == NOW + 90 and fleet.open == [] and len(ended.members) == 3


def test_a_member_that_fails_again_with_the_cause_stays_and_with_another_cause_leaves() -> None:
    fleet, down = Fleet(), outage(3)
    fleet.see(down)
    fleet.see(down[:2], NOW + 60)
    again = failure("q2", "sink:/out", after=100.0)
    (incident,) = fleet.see([*down[:2], again], NOW + 100)
    back = next(m for m in incident.members if m.query_id == "q2")
    assert (back.began_at, back.since, back.until) == (NOW + 20.0, NOW + 100.0, None)
    (incident,) = fleet.see([*down[:2], failure("q2", "condition:x", after=200.0)], NOW + 200)
    assert [m.query_id for m in incident.down] == ["q0", "q1"]


def tried(state: TrialState, members: Sequence[QueryFailure], at: float) -> Fleet:
    fleet = Fleet()
    fleet.see(members)
    trial = TrialRestart("q0", "entry", True, at, state)
    fleet.open = [replace(incident, trial=trial) for incident in fleet.open]
    return fleet


def test_a_trial_is_outdated_by_a_failure_after_it_helped_or_a_recovery_after_it_failed() -> None:
    down = outage(3)
    helped = tried(TrialState.HELPED, down, NOW + 50)
    helped.see(down[1:], NOW + 60)
    assert helped.open[0].trial is not None
    helped.see([failure("q0", "sink:/out", after=80.0), *down[1:]], NOW + 80)
    assert helped.open[0].trial is None
    failed = tried(TrialState.FAILED, down, NOW + 50)
    failed.see([failure("q0", "sink:/out", after=50.0), *down[1:]], NOW + 55)
    assert failed.open[0].trial is not None
    failed.see(down[:2], NOW + 60)
    assert failed.open[0].trial is None
