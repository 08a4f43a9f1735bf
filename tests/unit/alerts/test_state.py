"""The life of alerts: inactive, pending, firing, resolved; `now` is an argument, so a day takes no time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts import state
from alerts.errors import DuplicateAlertError
from alerts.promql.series import Sample
from alerts.rules.model import Rule
from alerts.state import Alert, AlertState, TemplateContext, Transition, clear, ends_at, resume, step
from tests.unit.alerts.examples import alert, rule, sample

PENDING, FIRING, RESOLVED = AlertState.PENDING, AlertState.FIRING, AlertState.RESOLVED


def played(rule: Rule, *answers: tuple[float, Sequence[Sample]]) -> tuple[dict[str, Alert], list[Transition]]:
    """The alerts after these answers (time, vector), and all transitions on the way."""
    active: dict[str, Alert] = {}
    changes: list[Transition] = []
    for now, vector in answers:
        active, changed = step(active, vector, rule, now)
        changes += changed
    return active, changes


def path(changes: Sequence[Transition]) -> list[tuple[float, AlertState | None, AlertState | None]]:
    return [(change.at, change.before, change.after) for change in changes]


def test_without_for_an_alert_fires_at_once() -> None:
    active, changes = played(rule(), (0, [sample(q="a")]))
    (item,) = active.values()
    assert (item.state, item.active_at, item.fired_at) == (FIRING, 0, 0)
    assert path(changes) == [(0, None, FIRING)]


def test_with_for_it_waits_and_then_fires() -> None:
    hold = (0, [sample()]), (15, [sample()]), (30, [sample()]), (45, [sample()])
    _, changes = played(rule(for_=30), *hold)
    assert path(changes) == [(0, None, PENDING), (30, PENDING, FIRING)]


def test_for_below_the_interval_fires_at_the_next_evaluation() -> None:
    _, changes = played(rule(for_=1), (0, [sample()]), (60, [sample()]))
    assert path(changes) == [(0, None, PENDING), (60, PENDING, FIRING)]


def test_a_condition_that_goes_while_pending_leaves_nothing() -> None:
    active, changes = played(rule(for_=30), (0, [sample()]), (15, []), (30, [sample()]))
    assert [item.active_at for item in active.values()] == [30]
    assert path(changes) == [(0, None, PENDING), (15, PENDING, None), (30, None, PENDING)]


def test_a_condition_that_goes_while_firing_resolves_at_once() -> None:
    active, changes = played(rule(), (0, [sample()]), (15, []))
    (item,) = active.values()
    assert (item.state, item.resolved_at, item.fired_at) == (RESOLVED, 15, 0)
    assert path(changes)[-1] == (15, FIRING, RESOLVED)


def test_a_resolved_alert_is_kept_for_fifteen_minutes() -> None:
    kept, _ = played(rule(), (0, [sample()]), (15, []), (915, []))
    gone, _ = played(rule(), (0, [sample()]), (15, []), (916, []))
    assert len(kept) == 1
    assert gone == {}


def test_an_alert_that_comes_back_begins_anew() -> None:
    active, changes = played(rule(for_=30), (0, [sample()]), (30, [sample()]), (45, []), (60, [sample()]))
    (item,) = active.values()
    assert (item.state, item.active_at, item.fired_at, item.resolved_at) == (PENDING, 60, None, None)
    assert path(changes)[-1] == (60, None, PENDING)


def test_keep_firing_for_outlasts_a_gap() -> None:
    keeps = rule(keep_firing_for=60)
    active, changes = played(
        keeps, (0, [sample()]), (15, []), (60, []), (75, [sample()]), (90, []), (149, [])
    )
    (item,) = active.values()
    assert (item.state, item.gone_since) == (FIRING, 90)
    assert path(changes) == [(0, None, FIRING)]
    _, over = step(active, [], keeps, 150)
    assert path(over) == [(150, FIRING, RESOLVED)]


def test_keep_firing_for_does_not_keep_what_never_fired() -> None:
    active, _ = played(rule(for_=30, keep_firing_for=60), (0, [sample()]), (15, []))
    assert active == {}


@pytest.mark.parametrize("before", [[], [sample(5.0)]])
def test_nan_never_fires_and_counts_as_gone(before: list[Sample]) -> None:
    active, _ = played(rule(), (0, before), (15, [sample(math.nan)]))
    assert all(item.state is RESOLVED for item in active.values())


def test_labels_are_the_answers_with_the_rules_over_them_and_without_the_metrics_name() -> None:
    reported = rule(
        labels={"severity": "{{ if gt $value 5.0 }}critical{{ else }}warning{{ end }}", "q": "", "app": "x"}
    )
    active, _ = played(reported, (0, [sample(6.0, q="a", app="shop", team="data")]))
    (item,) = active.values()
    assert item.labels == {"alertname": "Lag", "severity": "critical", "app": "x", "team": "data"}
    assert list(active) == [item.fingerprint]


def test_labels_of_the_group_stand_under_those_of_the_rule() -> None:
    context = TemplateContext(group_labels={"team": "ops", "tier": "gold"})
    active, _ = step({}, [sample(q="a")], rule(labels={"team": "data"}), 0, context)
    (item,) = active.values()
    assert item.labels == {"alertname": "Lag", "q": "a", "team": "data", "tier": "gold"}


def test_annotations_and_value_follow_while_labels_stay() -> None:
    reported = rule(annotations={"summary": "{{ $labels.q }} at {{ $value }} for {{ $externalLabels.dc }}"})
    context = TemplateContext(external_labels={"dc": "eu"})
    first, _ = step({}, [sample(1.0, q="a")], reported, 0, context)
    second, changes = step(first, [sample(2.0, q="a")], reported, 15, context)
    (item,) = second.values()
    assert (item.annotations, item.value, item.active_at) == ({"summary": "a at 2 for eu"}, 2.0, 0)
    assert changes == ()


def test_two_elements_with_the_same_labels_are_an_error_and_change_nothing() -> None:
    same = rule(labels={"q": "all"})
    with pytest.raises(DuplicateAlertError, match='alertname="Lag", q="all"'):
        step({}, [sample(q="a"), sample(q="b")], same, 0)


def test_every_change_has_a_reason() -> None:
    _, changes = played(rule(for_=30), (0, [sample()]), (30, [sample()]), (45, []))
    assert [change.reason for change in changes] == [
        "the condition holds; it fires after 30 s",
        "the condition has held for 30 s",
        "the condition no longer holds",
    ]


def test_clearing_resolves_what_fires_and_drops_what_waits() -> None:
    active, _ = played(rule(for_=30), (0, [sample(q="old")]), (30, [sample(q="old"), sample(q="new")]))
    after, changes = clear(active, 40, "the rule is gone")
    assert sorted(str(change.after) for change in changes) == ["None", "resolved"]
    assert [item.resolved_at for item in after.values()] == [40]


@pytest.mark.parametrize(
    ("waited", "away", "active_at"),
    [
        (100.0, 60.0, -40.0),  # the minute that nobody saw does not count
        (1700.0, 60.0, 1760.0 + 600.0 - 1800.0),  # nearly due: ten minutes of grace
        (1800.0, 60.0, 0.0),  # was due
    ],
)
def test_after_an_outage_waiting_goes_on_where_it_was(waited: float, away: float, active_at: float) -> None:
    long = rule(for_=1800)
    active, _ = played(long, (0, [sample()]))
    (item,) = resume(active, long, evaluated_at=waited, now=waited + away).values()
    expected = 60.0 if waited == 100.0 else active_at
    assert item.active_at == expected


def test_after_an_outage_a_short_wait_begins_whole_and_a_firing_alert_still_fires() -> None:
    short = rule(for_=60)
    waits, _ = played(short, (0, [sample()]))
    (item,) = resume(waits, short, evaluated_at=30, now=1000).values()
    assert item.active_at == 1000
    fires, _ = played(short, (0, [sample()]), (60, [sample()]))
    assert resume(fires, short, evaluated_at=60, now=100_000) == fires


def test_after_more_than_an_hour_pending_alerts_begin_anew() -> None:
    waits, _ = played(rule(for_=60), (0, [sample()]))
    assert resume(waits, rule(for_=60), evaluated_at=0, now=3601) == {}


def test_a_firing_alert_ends_for_who_receives_no_more_after_four_intervals() -> None:
    assert ends_at(alert(at=0), now=100, interval=15) == 340
    assert ends_at(alert(at=0), now=100, interval=120) == 580


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 90), st.integers(0, 90))
def test_states_follow_one_path_for_any_input(holds: list[bool], for_: int, keeps: int) -> None:
    """Only known steps happen, firing never before `for`, and nothing is active without its condition."""
    active: dict[str, Alert] = {}
    known = {(None, PENDING), (None, FIRING), (PENDING, FIRING), (PENDING, None), (FIRING, RESOLVED)}
    for number, hold in enumerate(holds):
        now = 15.0 * number
        active, changes = step(
            active, [sample()] if hold else [], rule(for_=for_, keep_firing_for=keeps), now
        )
        assert {(change.before, change.after) for change in changes} <= known
        for item in active.values():
            assert item.state is not PENDING or hold
            assert item.fired_at is None or item.fired_at - item.active_at >= for_
            assert item.state is not FIRING or hold or keeps
    assert state.RESOLVED_RETENTION_SECONDS == 900
