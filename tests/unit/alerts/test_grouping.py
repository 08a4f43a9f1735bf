"""Groups and their timers; `now` is an argument."""

from __future__ import annotations

from dataclasses import replace

from alerts.grouping import (
    Group,
    add_alerts,
    after_delivery,
    after_failure,
    due,
    group_key,
    next_due_at,
    retry_after,
    with_timers,
)
from alerts.routing import AlertRoute, Timing
from alerts.state import Alert
from tests.unit.alerts.examples import alert, resolved

TIMING = Timing(group_wait=30, group_interval=300, repeat_interval=3600)
ROOT = AlertRoute("{}", "hook", group_by=("app",), timing=TIMING)


def one_group(*alerts: Alert) -> Group:
    (group,) = add_alerts({}, alerts, ROOT).values()
    return group


def test_alerts_with_the_same_labels_to_group_by_are_one_group() -> None:
    groups = add_alerts({}, [alert("A", app="shop"), alert("B", app="shop"), alert("A", app="web")], ROOT)
    assert sorted((g.key, len(g.alerts)) for g in groups.values()) == [
        ('{}:{app="shop"}', 2),
        ('{}:{app="web"}', 1),
    ]


def test_a_group_waits_for_its_first_message_from_when_its_first_alert_fired() -> None:
    group = one_group(alert(at=1000, app="shop"))
    assert group.due_at() == 1030
    groups = {group.name: group}
    assert due(groups, 1029) == ()
    assert due(groups, 1030) == (group,)
    assert next_due_at(groups) == 1030
    assert next_due_at({}) is None


def test_after_a_message_a_group_is_due_again_after_its_interval() -> None:
    group = one_group(alert(at=1000, app="shop"))
    after = after_delivery(group, group.alerts, 1030)
    assert after is not None
    assert after.due_at() == 1330


def test_a_failed_message_is_tried_again_soon_and_then_less_often() -> None:
    group = one_group(alert(at=1000, app="shop"))
    tries = []
    now = 1030.0
    for _ in range(8):
        group = after_failure(group, now)
        tries.append(group.due_at() - now)
        now = group.due_at()
    assert tries == [5, 10, 20, 40, 80, 160, 300, 300]
    after = after_delivery(group, group.alerts, now)
    assert after is not None
    assert (after.failures, after.due_at()) == (0, now + 300)
    assert retry_after(10_000, TIMING) == 300


def test_a_resolved_alert_leaves_its_group_once_that_was_reported() -> None:
    fires, other = alert("A", app="shop"), alert("B", app="shop")
    group = one_group(fires, other)
    groups = add_alerts({group.name: group}, [resolved(fires, 1100)], ROOT)
    group = groups[group.name]
    after = after_delivery(group, group.alerts, 1200)
    assert after is not None
    assert list(after.alerts) == [other.fingerprint]
    ended = add_alerts({after.name: after}, [resolved(other, 1300)], ROOT)[after.name]
    assert after_delivery(ended, ended.alerts, 1400) is None


def test_what_changed_while_a_message_was_under_way_stays() -> None:
    fires = alert("A", at=1000, app="shop")
    reported = one_group(fires)
    ended = add_alerts({reported.name: reported}, [resolved(fires, 1100)], ROOT)[reported.name]
    again = add_alerts({ended.name: ended}, [alert("A", at=1150, app="shop")], ROOT)[ended.name]
    after = after_delivery(again, ended.alerts, 1200)
    assert after is not None
    assert after.alerts[fires.fingerprint].fired_at == 1150


def test_a_resolved_alert_without_a_notification_makes_no_group() -> None:
    assert add_alerts({}, [resolved(alert(app="shop"), 1100)], ROOT) == {}


def test_after_a_restart_a_group_of_old_alerts_is_due_at_once() -> None:
    assert one_group(alert(at=1000, app="shop")).due_at() < 5000


def test_group_keys_are_alertmanagers() -> None:
    assert group_key(ROOT, {}) == "{}:{}"
    route = AlertRoute('{}/{team="data"}', "hook")
    assert group_key(route, {"b": 'q"\\', "a": "x"}) == '{}/{team="data"}:{a="x", b="q\\"\\\\"}'


def test_groups_of_new_routes_keep_the_timers_of_the_former_ones() -> None:
    groups = add_alerts({}, [alert(at=0, app="shop"), alert(at=0, app="till")], ROOT)
    known = {
        name: replace(group, flushed_at=50.0, failures=2, tried_at=60.0) for name, group in groups.items()
    }
    (kept, *_) = known
    slower = replace(ROOT, timing=Timing(30, 600, 3600))
    anew = with_timers(add_alerts({}, [alert(at=0, app="shop"), alert(at=0, app="new")], slower), known)
    group = anew[kept]
    assert (group.flushed_at, group.failures, group.timing.group_interval) == (50.0, 2, 600)
    assert [item.flushed_at for name, item in anew.items() if name != kept] == [None]
