"""What each store must store of alerts: episodes, notifications, silences and acknowledgements."""

from __future__ import annotations

import math
import random
import string
from dataclasses import replace
from typing import Any

import pytest

from alerts.acknowledgements import Acknowledgement
from alerts.matching.labels import Matcher
from alerts.notify.reasons import NotificationState
from alerts.silences import Silence
from alerts.state import Alert, AlertState, Transition
from controlplane.records import DeliveryOutcome, NotificationLogEntry
from controlplane.store import alerting
from controlplane.store.alerting import AlertChange, StoredAlert
from tests.stores import StoreHarness

GROUP = "file.yaml;life"
#: Nothing that a database could make shorter.
NOISE = "".join(random.Random(20261120).choices(string.ascii_letters + string.digits, k=10_000))
TEXTS = {
    "emoji": "🔥 naïve 数据",
    "quotes": """it's "quoted"; DROP TABLE alerts; -- \\ %s :name""",
    "lines": "one\ntwo\r\n\tthree",
    "like": "100%_of\\it",
    "long": NOISE,
}
#: What no database can hold, and what stands for it.
UNSTORABLE = {"nul": "a\x00b", "half": "a\ud800b"}


def alert(state: AlertState = AlertState.FIRING, at: float = 1000.0, **labels: str) -> Alert:
    named = {"alertname": "Lag", **labels}
    fired = None if state is AlertState.PENDING else at + 60.0
    over = at + 120.0 if state is AlertState.RESOLVED else None
    return Alert("Lag", named, {"summary": "it lags"}, 1.5, state, at, fired, over)


def change(item: Alert, reason: str = "because", rule: str = "Lag", gone: bool = False) -> AlertChange:
    after = None if gone else item.state
    return AlertChange(GROUP, rule, Transition(item, None, after, item.active_at, reason))


def record(harness: StoreHarness, *changes: AlertChange, evaluated: dict[str, float] | None = None) -> None:
    harness.write(alerting.record_changes, changes, evaluated or {})


def current(harness: StoreHarness, since: float = 0.0) -> list[StoredAlert]:
    found: list[StoredAlert] = harness.read(alerting.recent_alerts, since)
    return found


def history(harness: StoreHarness, *arguments: Any, **named: Any) -> list[Alert]:
    with harness.engine.connect() as connection:
        return [item.alert for item in alerting.history(connection, *arguments, **named)]


# -- episodes --------------------------------------------------------------------------------------


def test_an_alert_goes_through_its_lifecycle_in_one_row(harness: StoreHarness) -> None:
    lifecycle = [alert(state, query_id="q") for state in AlertState]
    for item in lifecycle:
        record(harness, change(item, reason=f"it is {item.state}"))
        assert current(harness) == [StoredAlert(GROUP, "Lag", item, f"it is {item.state}")]
    assert history(harness, 0.0, 1e10) == [lifecycle[-1]]


def test_a_pending_alert_that_never_fired_leaves_nothing(harness: StoreHarness) -> None:
    pending = alert(AlertState.PENDING)
    record(harness, change(pending), change(pending, gone=True))
    assert current(harness) == []


def test_a_second_episode_stands_beside_the_first(harness: StoreHarness) -> None:
    first, second = alert(AlertState.RESOLVED, at=1000.0), alert(at=5000.0)
    record(harness, change(first), change(second))
    assert history(harness, 0.0, 1e10) == [second, first]
    assert [item.alert for item in current(harness, since=4000.0)] == [second]


def test_changes_that_are_stored_twice_are_one_episode(harness: StoreHarness) -> None:
    """The store may have taken what it did not answer for in time; then it comes again."""
    lifecycle = [change(alert(state)) for state in AlertState]
    record(harness, *lifecycle)
    record(harness, *lifecycle)
    assert len(history(harness, 0.0, 1e10)) == len(current(harness)) == 1


def test_alerts_of_two_rules_with_the_same_labels_are_kept_apart(harness: StoreHarness) -> None:
    record(harness, change(alert(), rule="Lag"), change(alert(), rule="Lag#2"))
    record(harness, change(alert(AlertState.RESOLVED), rule="Lag"))
    states = {item.rule: item.alert.state for item in current(harness)}
    assert states == {"Lag": AlertState.RESOLVED, "Lag#2": AlertState.FIRING}


def test_the_time_of_a_groups_evaluation_is_replaced(harness: StoreHarness) -> None:
    record(harness, evaluated={GROUP: 10.0, "other": 11.0})
    record(harness, evaluated={GROUP: 25.5})
    assert harness.read(alerting.evaluated_at) == {GROUP: 25.5, "other": 11.0}


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0.0, 1059.0, []), (0.0, 1060.0, ["a"]), (1120.0, 2000.0, ["a"]), (1121.0, 2000.0, [])],
)
def test_the_history_has_what_fired_within_its_time(
    harness: StoreHarness, start: float, end: float, found: list[str]
) -> None:
    record(harness, change(alert(AlertState.RESOLVED, query_id="a")))
    record(harness, change(alert(AlertState.PENDING, query_id="waits")))
    assert [item.labels["query_id"] for item in history(harness, start, end)] == found


def test_the_history_of_a_query_is_its_own_and_limited(harness: StoreHarness) -> None:
    for at in (1000.0, 2000.0, 3000.0):
        for query in ("a", "b"):
            record(harness, change(alert(AlertState.RESOLVED, at=at, query_id=query)))
    found = history(harness, 0.0, 1e10, "a", limit=2)
    assert [(item.labels["query_id"], item.active_at) for item in found] == [("a", 3000.0), ("a", 2000.0)]
    (item,) = history(harness, 0.0, 1e10, limit=1, fingerprint=alert(query_id="b").fingerprint)
    assert item.labels["query_id"] == "b"


@pytest.mark.parametrize("value", [math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1 + 0.2])
def test_every_value_that_an_alert_may_have_comes_back_as_it_was(harness: StoreHarness, value: float) -> None:
    record(harness, change(replace(alert(), value=value)))
    assert current(harness)[0].alert.value == value


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_odd_text_come_back_as_they_were(harness: StoreHarness, text: str) -> None:
    item = replace(alert(app=text, query_id=text), annotations={"summary": text})
    record(harness, change(item, reason=text))
    assert current(harness) == [StoredAlert(GROUP, "Lag", item, text)]
    assert history(harness, 0.0, 1e10, text) == [item]
    kept = NotificationLogEntry(5.0, text, text, DeliveryOutcome.SENT, text, (item.fingerprint,))
    state = NotificationState(frozenset([item.fingerprint]), frozenset(), 5.0)
    harness.write(alerting.log_notification, kept, state)
    assert harness.read(alerting.logged_notifications) == [kept]
    assert harness.read(alerting.notification_states) == {(text, text): state}
    silence = Silence("s", (Matcher("app", "=", text),), 1.0, 2.0, text, text, 1.0)
    harness.write(alerting.put_silence, silence)
    assert harness.read(alerting.all_silences) == [silence]


@pytest.mark.parametrize("text", UNSTORABLE.values(), ids=UNSTORABLE)
def test_what_no_database_can_hold_becomes_a_sign_for_it(harness: StoreHarness, text: str) -> None:
    named = {"alertname": "Lag", "app": text}
    item = Alert("Lag", named, {"summary": text}, 1.0, AlertState.PENDING, 1.0)
    harness.write(alerting.put_acknowledgement, Acknowledgement("f", 1.0, text, 2.0, text))
    assert harness.read(alerting.all_acknowledgements)[0].comment == "a\ufffdb"
    harness.write(
        alerting.log_notification,
        NotificationLogEntry(1.0, text, text, DeliveryOutcome.FAILED, text),
        None,
    )
    assert harness.read(alerting.logged_notifications)[0].reason == "a\ufffdb"
    if text != UNSTORABLE["half"]:  # such a label has no fingerprint
        record(harness, change(item, reason=text))
        assert current(harness)[0].reason == "a\ufffdb"


def test_an_annotation_of_a_megabyte_is_kept(harness: StoreHarness) -> None:
    item = replace(alert(), annotations={"description": NOISE * 100})
    record(harness, change(item))
    assert current(harness)[0].alert == item


# -- notifications ---------------------------------------------------------------------------------


def reported_of(*fingerprints: str, at: float = 5.0) -> NotificationState:
    return NotificationState(frozenset(fingerprints), frozenset(), at)


def line(
    key: str = "{}:{}", receiver: str = "team/webhook[0]", at: float = 5.0, *named: str
) -> NotificationLogEntry:
    return NotificationLogEntry(at, receiver, key, DeliveryOutcome.SENT, "1 alert fires", named)


def test_the_newest_that_was_reported_is_kept_by_group_and_receiver(harness: StoreHarness) -> None:
    harness.write(alerting.log_notification, line(), reported_of("a"))
    harness.write(alerting.log_notification, line(receiver="other"), reported_of("a"))
    harness.write(
        alerting.log_notification, line(at=6.0), NotificationState(frozenset("b"), frozenset("a"), 6.0)
    )
    assert harness.read(alerting.notification_states) == {
        ("{}:{}", "team/webhook[0]"): NotificationState(frozenset("b"), frozenset("a"), 6.0),
        ("{}:{}", "other"): reported_of("a"),
    }


def test_a_receiver_that_knows_that_all_is_over_is_as_one_that_was_never_reported(
    harness: StoreHarness,
) -> None:
    harness.write(alerting.log_notification, line(), reported_of("a"))
    harness.write(
        alerting.log_notification, line(at=6.0), NotificationState(frozenset(), frozenset("a"), 6.0)
    )
    assert harness.read(alerting.notification_states) == {}
    assert len(harness.read(alerting.logged_notifications)) == 2


def test_a_note_without_news_leaves_what_was_reported(harness: StoreHarness) -> None:
    harness.write(alerting.log_notification, line(), reported_of("a"))
    harness.write(alerting.log_notification, replace(line(), outcome=DeliveryOutcome.FAILED), None)
    assert harness.read(alerting.notification_states) == {("{}:{}", "team/webhook[0]"): reported_of("a")}


def test_a_note_that_is_stored_twice_is_one_line(harness: StoreHarness) -> None:
    for _ in range(2):
        harness.write(alerting.log_notification, line(), reported_of("a"))
    assert (
        len(harness.read(alerting.logged_notifications))
        == len(harness.read(alerting.notification_states))
        == 1
    )


def test_the_log_is_read_newest_first_and_of_one_alert(harness: StoreHarness) -> None:
    for number in range(5):
        harness.write(
            alerting.log_notification, line("{}:{}", "r", float(number), f"{number:016x}", "f" * 16), None
        )
    assert [
        logged_notification.at for logged_notification in harness.read(alerting.logged_notifications, 2)
    ] == [4.0, 3.0]
    assert [
        logged_notification.at
        for logged_notification in harness.read(alerting.logged_notifications, 9, f"{3:016x}")
    ] == [3.0]
    assert harness.read(alerting.logged_notifications, 9, "%") == []


# -- silences, acknowledgements, forgetting --------------------------------------------------------


def silence(id: str = "s", ends_at: float = 20.0) -> Silence:
    matchers = (Matcher("app", "=~", "a|b"), Matcher("team", "!=", ""))
    return Silence(id, matchers, 10.0, ends_at, "ada", "known", 9.0)


def test_a_silence_is_changed_in_its_place(harness: StoreHarness) -> None:
    for item in (silence(), silence("t"), silence(ends_at=15.0)):
        harness.write(alerting.put_silence, item)
    assert harness.read(alerting.all_silences) == [silence("t"), silence(ends_at=15.0)]


def test_acknowledgements_are_kept_in_their_order(harness: StoreHarness) -> None:
    both = [Acknowledgement("f", 1.0, "ada", at, "looking") for at in (3.0, 2.0)]
    for item in both:
        harness.write(alerting.put_acknowledgement, item)
    assert harness.read(alerting.all_acknowledgements) == both


def test_only_what_is_over_is_forgotten(harness: StoreHarness) -> None:
    old, young = alert(AlertState.RESOLVED, at=1000.0), alert(AlertState.RESOLVED, at=5000.0)
    fires, waits = alert(at=100.0, app="fires"), alert(AlertState.PENDING, at=100.0, app="waits")
    record(harness, *map(change, (old, young, fires, waits)))
    for at in (10.0, 5000.0):
        harness.write(alerting.log_notification, line(at=at), reported_of("a", at=at))
        harness.write(alerting.put_silence, silence(f"{at}", ends_at=at))
        harness.write(alerting.put_acknowledgement, Acknowledgement("f", 1.0, "ada", at))
    assert harness.write(alerting.prune, 4000.0) == 4
    assert {item.alert.active_at for item in current(harness)} == {5000.0, 100.0}
    assert len(current(harness)) == 3
    assert [
        logged_notification.at for logged_notification in harness.read(alerting.logged_notifications)
    ] == [5000.0]
    assert [all_silence.id for all_silence in harness.read(alerting.all_silences)] == ["5000.0"]
    assert [
        all_acknowledgement.at for all_acknowledgement in harness.read(alerting.all_acknowledgements)
    ] == [5000.0]
    assert harness.write(alerting.prune, 4000.0) == 0


def test_notifications_of_a_firing_alert_are_kept(harness: StoreHarness) -> None:
    """An alert acknowledged for weeks is not notified again after a restart."""
    fires = alert(at=100.0)
    record(harness, change(fires))
    harness.write(alerting.log_notification, line(at=10.0), reported_of(fires.fingerprint, at=10.0))
    harness.write(alerting.put_acknowledgement, Acknowledgement(fires.fingerprint, 160.0, "ada", 10.0))
    harness.write(alerting.prune, 4000.0)
    assert harness.read(alerting.notification_states) == {
        ("{}:{}", "team/webhook[0]"): reported_of(fires.fingerprint, at=10.0)
    }
    assert len(harness.read(alerting.all_acknowledgements)) == 1
