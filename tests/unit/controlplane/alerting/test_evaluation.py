"""States over evaluations, reloads, outages and a store that is away."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pytest

from alerts.state import FOR_GRACE_PERIOD_SECONDS, RESOLVED_RETENTION_SECONDS, AlertState
from controlplane.alerting import evaluation as module
from controlplane.alerting.evaluation import Evaluation
from controlplane.store.alerting import AlertChange, StoredAlert
from tests.unit.controlplane.alerting.parts import NOW, Figures, Memory, book, rule

FIRING, PENDING, RESOLVED = AlertState.FIRING, AlertState.PENDING, AlertState.RESOLVED
STATUS = 'spark_streaming_query_status{status="failed"} == 1'


class Rules:
    """An evaluation with its surroundings. One series is down from the start."""

    def __init__(self, *texts: str):
        self.figures, self.store = Figures(), Memory()
        self.figures.set("up", 0, app="shop")
        self.running = Evaluation(book(*texts), self.figures, self.store.save, "")

    def states(self) -> dict[str, AlertState]:
        return {f"{alert.rule}": alert.alert.state for alert in self.running.alerts()}

    def again(self, *texts: str, now: float) -> Rules:
        """After a restart, with what was stored."""
        after = Rules(*texts)
        after.figures.values = self.figures.values
        after.running.load(self.running.alerts(), self.store.evaluated, now)
        return after


def test_an_alert_is_stored_with_its_reason_and_the_time_of_the_evaluation() -> None:
    rules = Rules(rule())
    rules.running.tick(NOW)
    (item,) = rules.running.alerts()
    assert (item.group, item.rule, item.alert.state) == ("f;one", "Up", FIRING)
    assert item.reason == "the condition holds"
    assert rules.store.became() == [("Up", FIRING)]
    assert rules.store.evaluated == {"f;one": NOW}
    assert rules.figures.recorded == ["f;one"]


def test_nothing_is_stored_twice_while_nothing_changes() -> None:
    rules = Rules(rule())
    for number in range(3):
        rules.running.tick(NOW + 15 * number)
    assert rules.store.became() == [("Up", FIRING)]


# -- other files -----------------------------------------------------------------------------------


def test_states_go_on_when_a_rule_is_put_before_another() -> None:
    rules = Rules(rule(for_="1m"))
    rules.running.tick(NOW)
    rules.running.replace(book(rule("First", "down == 1") + rule(for_="1m")), NOW + 1)
    rules.running.tick(NOW + 60)
    assert rules.states() == {"Up": FIRING}
    (item,) = rules.running.alerts()
    assert item.alert.active_at == NOW


def test_a_rule_that_goes_ends_its_alerts_and_they_are_there_to_be_reported() -> None:
    rules = Rules(rule() + rule("Stays"))
    rules.running.tick(NOW)
    rules.running.replace(book(rule("Stays")), NOW + 5)
    assert rules.states() == {"Up": RESOLVED, "Stays": FIRING}
    assert rules.store.became()[-1] == ("Up", RESOLVED)
    rules.running.tick(NOW + 15)
    assert rules.states()["Up"] is RESOLVED
    rules.running.tick(NOW + RESOLVED_RETENTION_SECONDS + 30)
    assert rules.states() == {"Stays": FIRING}


def test_a_group_that_goes_ends_its_alerts_and_its_series() -> None:
    rules = Rules(rule(), rule("Second"))
    rules.running.tick(NOW)
    rules.running.replace(book(rule()), NOW + 5)
    assert rules.states() == {"Up": FIRING, "Second": RESOLVED}
    assert rules.figures.forgotten == ["f;two"]
    assert [group.group.name for group in rules.running.groups()] == ["one"]


def test_an_alert_whose_rule_records_a_series_from_now_on_ends() -> None:
    rules = Rules(rule())
    rules.running.tick(NOW)
    rules.running.replace(book("  - {record: Up, expr: 'up'}\n"), NOW + 5)
    assert rules.store.became()[-1] == ("Up", RESOLVED)


def test_a_pending_alert_whose_rule_goes_leaves_nothing() -> None:
    rules = Rules(rule(for_="1m"))
    rules.running.tick(NOW)
    rules.running.replace(book(), NOW + 5)
    assert rules.states() == {}
    assert rules.store.became() == [("Up", PENDING), ("Up", None)]


# -- when ------------------------------------------------------------------------------------------


def test_a_group_is_evaluated_once_a_slot_and_what_was_missed_is_counted() -> None:
    rules = Rules(rule())
    for at in (NOW, NOW + 1, NOW + 14, NOW + 15, NOW + 60):
        rules.running.tick(at)
    (group,) = rules.running.groups()
    assert rules.running.evaluations == 3
    assert (group.missed, group.evaluated_at) == (2, NOW + 60)


def test_only_groups_that_read_the_lifecycle_of_queries_are_evaluated_at_once() -> None:
    rules = Rules(rule(), rule("Failed", STATUS))
    rules.figures.set("spark_streaming_query_status", 1, status="failed", app="shop")
    rules.running.evaluate_immediate(NOW)
    assert rules.states() == {"Failed": FIRING}


@pytest.mark.parametrize("step", ["tick", "evaluate_immediate"])
def test_a_clock_that_is_set_back_does_not_stop_the_rules(step: str) -> None:
    rules = Rules(rule("Failed", STATUS))
    rules.running.tick(NOW)
    rules.figures.set("spark_streaming_query_status", 1, status="failed", app="shop")
    getattr(rules.running, step)(NOW - 3600)
    assert rules.states() == {"Failed": FIRING}


# -- after an outage -------------------------------------------------------------------------------


def test_an_outage_does_not_count_towards_the_waiting_time() -> None:
    before = Rules(rule(for_="30m"))
    before.running.tick(NOW)
    before.running.tick(NOW + 1500)
    after = before.again(rule(for_="30m"), now=NOW + 1700)
    after.running.tick(NOW + 1800)
    assert after.states() == {"Up": PENDING}
    after.running.tick(NOW + 1700 + FOR_GRACE_PERIOD_SECONDS)
    assert after.states() == {"Up": FIRING}


def test_a_second_outage_does_not_make_the_first_one_count() -> None:
    before = Rules(rule(for_="30m"))
    before.running.tick(NOW)
    before.running.tick(NOW + 60)
    between = before.again(rule(for_="30m"), now=NOW + 1260)
    between.running.tick(NOW + 1290)
    after = between.again(rule(for_="30m"), now=NOW + 1300)
    after.running.tick(NOW + 1830)
    assert after.states() == {"Up": PENDING}
    after.running.tick(NOW + 3030)
    assert after.states() == {"Up": FIRING}


def test_a_long_outage_begins_the_waiting_anew_but_ends_no_firing() -> None:
    before = Rules(rule(for_="30m") + rule("Fires"))
    before.running.tick(NOW)
    after = before.again(rule(for_="30m") + rule("Fires"), now=NOW + 7200)
    assert after.states() == {"Fires": FIRING}
    after.running.tick(NOW + 7200)
    assert after.states() == {"Up": PENDING, "Fires": FIRING}
    assert after.store.became() == [("Up", PENDING)]


def test_an_alert_that_was_over_before_the_server_came_back_ends_then() -> None:
    before = Rules(rule())
    before.running.tick(NOW)
    after = before.again(rule(), now=NOW + 600)
    after.figures.set("up", 1, app="shop")
    after.running.tick(NOW + 600)
    assert after.store.became() == [("Up", RESOLVED)]


def test_an_alert_whose_rule_went_while_the_server_was_down_ends() -> None:
    before = Rules(rule(), rule("Second"))
    before.running.tick(NOW)
    after = before.again(rule(), now=NOW + 60)
    assert after.states() == {"Up": FIRING, "Second": RESOLVED}
    assert after.store.became() == [("Second", RESOLVED)]


# -- a store that is away, rules that break --------------------------------------------------------


def test_with_the_store_down_alerts_live_on_and_are_stored_later_once() -> None:
    rules = Rules(rule())
    rules.store.down = True
    rules.running.tick(NOW)
    rules.figures.set("up", 1, app="shop")
    rules.running.tick(NOW + 15)
    assert rules.states() == {"Up": RESOLVED}
    rules.store.down = False
    rules.running.tick(NOW + 30)
    rules.running.tick(NOW + 45)
    assert rules.store.became() == [("Up", FIRING), ("Up", RESOLVED)]
    assert rules.store.evaluated == {"f;one": NOW + 45}


def test_what_the_store_refuses_for_itself_does_not_stop_what_comes_after() -> None:
    rules, refuses = Rules(rule()), [True]

    def save(changes: Sequence[AlertChange], evaluated: Mapping[str, float]) -> None:
        if refuses.pop() if refuses else False:
            raise ValueError("this cannot be stored")
        rules.store.save(changes, evaluated)

    rules.running = Evaluation(book(rule()), rules.figures, save, "")
    rules.running.tick(NOW)
    assert rules.states() == {"Up": FIRING}
    rules.figures.set("up", 1, app="shop")
    rules.running.tick(NOW + 15)
    assert rules.store.became() == [("Up", RESOLVED)]


def test_what_waits_for_the_store_is_stored_in_parts_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAVE_BATCH_SIZE", 10)
    monkeypatch.setattr(module, "MAX_UNSAVED", 25)
    sizes: list[int] = []
    rules = Rules(rule())
    for number in range(40):
        rules.figures.set("up", 0, app=f"app {number}")
    rules.running = Evaluation(book(rule()), rules.figures, lambda c, _: sizes.append(len(c)), "")
    rules.running.tick(NOW)
    assert sizes == [10, 10, 5]


def test_a_mistake_of_ours_in_one_group_leaves_the_others_and_its_alerts_alone() -> None:
    rules = Rules(rule(), rule("Second", "bad == 0"))
    rules.figures.set("bad", 0)
    rules.running.tick(NOW)
    rules.figures.broken = {"bad"}
    rules.figures.set("up", 1, app="shop")
    rules.running.tick(NOW + 15)
    assert rules.states() == {"Up": RESOLVED, "Second": FIRING}
    errors = {view.group.name: view.rules[0].error for view in rules.running.groups()}
    assert errors == {"one": None, "two": "internal error (MemoryError); see the server log"}
    assert rules.running.failures == 1
    rules.figures.broken = set()
    rules.running.tick(NOW + 30)
    assert {view.rules[0].error for view in rules.running.groups()} == {None}


def test_a_failing_rule_is_logged_when_it_begins_to_fail(caplog: pytest.LogCaptureFixture) -> None:
    rules = Rules(rule("Same", 'label_replace(up, "app", "x", "", "")'))
    rules.figures.set("up", 0, app="other")
    for number in range(3):
        rules.running.tick(NOW + 15 * number)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


def test_a_fleet_that_fails_at_once_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    rules = Rules(rule())
    for number in range(300):
        rules.figures.set("up", 0, app=f"app {number}")
    with caplog.at_level(logging.INFO):
        rules.running.tick(NOW)
    assert len(rules.running.alerts()) == 301
    assert len(caplog.records) == module.MAX_LOG_LINES + 1
    assert "251 more" in caplog.records[-1].getMessage()


def test_a_rule_shows_what_lives_of_it() -> None:
    rules = Rules(rule() + rule("Waits", for_="1h"))
    rules.running.tick(NOW)
    (view,) = rules.running.groups()
    assert [len(item.alerts) for item in view.rules] == [1, 1]
    assert view.interval == 15.0
    rules.figures.set("up", 1, app="shop")
    rules.running.tick(NOW + 15)
    assert [item.alerts for item in rules.running.groups()[0].rules] == [(), ()]


def test_reasons_are_forgotten_with_their_alerts() -> None:
    rules = Rules(rule())
    for number in range(5):
        rules.figures.set("up", 0, app=f"{number}")
        rules.running.tick(NOW + 2000 * number)
        rules.figures.set("up", None, app=f"{number}")
    for later in (12_000, 13_000, 14_000):
        rules.running.tick(NOW + later)
    assert len(rules.running._reasons) == len(rules.running.alerts()) == 1


def test_alerts_of_a_stranger_group_keep_the_name_of_their_group() -> None:
    rules = Rules(rule())
    rules.running.tick(NOW)
    (item,) = rules.running.alerts()
    after = Rules()
    after.running.load([StoredAlert("g;gone", "Up", item.alert, "")], {}, NOW)
    assert after.running.group_name("g;gone") == "gone"
    assert [view.group.name for view in after.running.groups()] == []
