"""Who is reported, when, and what is noted: receivers that hang and break, a store that is away, other routes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from alerts.matching.labels import Matcher
from alerts.notify.message import Message
from alerts.notify.reasons import NotificationState
from alerts.notify.receivers.base import Receiver
from alerts.notify.receivers.recorder import Recorder
from alerts.silences import Silence
from alerts.state import Alert
from controlplane.alerting.delivery import DeliveryFailure
from controlplane.alerting.notifier import GroupName, Notifier
from controlplane.alerting.silence_state import SilenceStates
from controlplane.records import DeliveryOutcome, NotificationLogEntry
from tests.acceptance.live import eventually
from tests.unit.alerts.examples import alert, resolved
from tests.unit.controlplane.alerting.parts import (
    INTERVAL,
    NOW,
    REPEAT,
    ROUTES,
    WAIT,
    Broken,
    Clock,
    Door,
    Memory,
    book,
    config,
    refusal,
)


class Team:
    """A notifier whose route `team` leads to these receivers."""

    def __init__(self, *receivers: Receiver, other: tuple[Receiver, ...] = (), routes: str = ROUTES):
        self.clock, self.store, self.silence_state = Clock(), Memory(), SilenceStates()
        self.receivers = {"team": receivers, "other": other}
        self.book = book(routes=routes, receivers=self.receivers)
        self.notifier = Notifier(self.book, self.silence_state, self.store.keep, "http://page", self.clock)

    def take(self, *alerts: Alert) -> None:
        self.notifier.take(alerts)

    def look(self, later: float = 0.0) -> None:
        """Look at every group that is due, after so many seconds."""
        self.clock.now += later
        for group in self.notifier.groups():
            if group.due_at() <= self.clock.now:
                self.notifier.look(group.name)

    def again(self, *alerts: Alert) -> Team:
        """After a restart of the server, with what was stored and these alerts."""
        after = Team(*self.receivers["team"])
        after.clock.now = self.clock.now
        after.notifier.load(alerts, self.store.reported, list(reversed(self.store.notes)))
        return after

    def outcomes(self) -> list[DeliveryOutcome]:
        return [note.outcome for note in self.store.notes]


@pytest.fixture
def started() -> Iterator[list[Team]]:
    """Teams whose notifiers run; stopped afterwards, doors opened."""
    teams: list[Team] = []
    yield teams
    for team in teams:
        for receiver in [*team.receivers["team"], *team.receivers["other"]]:
            if isinstance(receiver, Door):
                receiver.opened.set()
        team.notifier.stop()


def run(teams: list[Team], team: Team) -> Team:
    teams.append(team)
    team.notifier.start()
    return team


def lag(app: str = "shop", at: float = NOW) -> Alert:
    return alert(at=at, app=app)


def reasons(recorder: Recorder) -> list[str]:
    return [message.reason.value for message in recorder.messages]


# -- reporting and noting ----------------------------------------------------------------------------


def test_a_group_is_reported_after_its_wait_and_noted_with_what_is_known_now() -> None:
    team = Team(hook := Recorder("hook"))
    team.take(lag())
    team.look()
    assert hook.messages == []
    team.look(WAIT)
    (message,) = hook.messages
    assert message.generator_urls == {lag().fingerprint: f"http://page/alerts?alert={lag().fingerprint}"}
    (note,) = team.store.notes
    assert (note.outcome, note.receiver, note.fingerprints) == ("sent", "hook", (lag().fingerprint,))
    assert team.notifier.notified(lag().fingerprint) == note
    assert team.store.reported[message.group_key, "hook"] == NotificationState(
        frozenset([lag().fingerprint]), frozenset(), NOW + WAIT
    )


def test_of_two_receivers_of_one_name_only_the_one_that_failed_is_reported_again() -> None:
    fails, takes = Recorder("a", failures=[refusal("503")]), Recorder("b")
    team = Team(fails, takes)
    team.take(lag())
    team.look(WAIT)
    assert (len(fails.messages), len(takes.messages)) == (0, 1)
    team.look(5)
    assert (len(fails.messages), len(takes.messages)) == (1, 1)
    assert {name[1] for name in team.store.reported} == {"a", "b"}


def test_a_failing_receiver_does_not_block_others_and_backs_off() -> None:
    broken, takes = Broken(), Recorder("b")
    team = Team(broken, takes)
    team.take(lag())
    for _ in range(60):
        team.look(WAIT if not broken.tried else 1)
    assert len(takes.messages) == 1
    assert broken.tried == 4  # after 5, 10 and 20 seconds
    failed = [note for note in team.store.notes if note.outcome is DeliveryOutcome.FAILED]
    assert ["RuntimeError: no such thing" in note.reason for note in failed] == [True]


def test_a_failure_counts_from_its_first_delivery_until_one_succeeds() -> None:
    hook = Recorder("hook", failures=[refusal("refused"), refusal("timed out")])
    team = Team(hook)
    team.take(lag())
    team.look(WAIT)
    began = team.clock.now
    assert team.notifier.failures() == {"hook": DeliveryFailure(began, "refused")}
    assert team.again(lag()).notifier.failures() == team.notifier.failures()  # after a restart of the server
    team.look(60)
    assert team.notifier.failures() == {"hook": DeliveryFailure(began, "timed out")}
    team.look(60)
    assert (len(hook.messages), team.notifier.failures()) == (1, {})


def test_a_reload_forgets_failures_of_the_former_receivers() -> None:
    team = Team(Recorder("hook", failures=[refusal("refused")]))
    team.take(lag())
    team.look(WAIT)
    team.notifier.replace(team.book)
    assert team.notifier.failures() == {}


def test_a_note_of_nothing_new_is_not_repeated_for_another_number() -> None:
    team = Team(Recorder("hook"))
    team.take(lag())
    team.look(WAIT)
    for _ in range(5):
        team.look(INTERVAL)
    assert team.outcomes() == [DeliveryOutcome.SENT, DeliveryOutcome.NOT_SENT]
    assert "300 s ago" in team.store.notes[1].reason


def test_a_failure_is_noted_once_for_each_kind() -> None:
    text = ["the hook answered 503", "the hook answered 502", "it could not be reached"]
    team = Team(Recorder("hook", failures=[refusal(word) for word in text]))
    team.take(lag())
    for _ in range(6):
        team.look(600)
    failed = [note.reason for note in team.store.notes if note.outcome is DeliveryOutcome.FAILED]
    assert len(failed) == 2
    assert team.notifier.sent == 1


def test_a_route_without_a_receiver_is_logged_once() -> None:
    team = Team()
    team.take(lag())
    for _ in range(3):
        team.look(INTERVAL)
    (note,) = team.store.notes
    assert note.reason == "receiver 'team' has no integration configured"


def test_while_an_alert_that_fires_has_the_labels_of_one_that_ended_it_fires() -> None:
    """A rule that was moved to another group: its old alert ends, its new one fires."""
    team = Team(hook := Recorder("hook"))
    ended = resolved(lag(), NOW + 5)
    for alerts in ((lag(at=NOW + 6), ended), (ended, lag(at=NOW + 6))):
        team.take(*alerts)
        team.look(INTERVAL)
        assert [message.status for message in hook.messages] == ["firing"]


def test_an_alert_that_fires_anew_after_it_ended_in_silence_is_reported_at_once() -> None:
    team = Team(hook := Recorder("hook"))
    team.take(lag())
    team.look(WAIT)
    team.silence_state.put([Silence("s", (Matcher("app", "=", "shop"),), NOW, NOW + 400, "ada", "")])
    team.take(resolved(lag(), NOW + 20))
    team.look(INTERVAL)
    assert len(hook.messages) == 1
    team.take(lag(at=NOW + 500))
    team.look(300)
    assert reasons(hook) == ["first notification"] * 2


def test_changes_during_a_delivery_are_sent_with_the_next_notification(started: list[Team]) -> None:
    door = Door()
    team = run(started, Team(door))
    team.clock.now += WAIT
    team.take(lag())
    assert door.came.wait(10)
    team.take(resolved(lag(), NOW + 11))
    door.opened.set()
    assert eventually(lambda: team.store.notes)
    team.clock.now += INTERVAL
    assert eventually(lambda: len(door.messages) == 2)
    assert [message.status for message in door.messages] == ["firing", "resolved"]
    assert eventually(lambda: team.notifier.groups() == ())


# -- hanging ---------------------------------------------------------------------------------------


def test_a_receiver_that_hangs_does_not_delay_another(started: list[Team]) -> None:
    routes = ROUTES.replace(
        "repeat_interval: 1h}", "repeat_interval: 1h, routes: [{receiver: other, matchers: ['app=\"pay\"']}]}"
    )
    door, quick = Door(), Recorder("quick")
    team = run(started, Team(door, other=(quick,), routes=routes))
    team.clock.now += WAIT
    team.take(lag())
    assert door.came.wait(10)
    team.take(lag(), lag("pay"))
    assert eventually(lambda: quick.messages)
    assert not door.messages


def test_a_dozen_receivers_that_hang_do_not_delay_one_that_takes(started: list[Team]) -> None:
    doors = {f"door {number}": Door() for number in range(12)}
    routes = "route: {receiver: team, group_by: [app], group_wait: 10s, routes: ["
    routes += ", ".join(f"{{receiver: {name}, matchers: ['app=\"{name}\"']}}" for name in doors)
    routes += "]}\nreceivers: [{name: team}" + "".join(f", {{name: {name}}}" for name in doors) + "]"
    team = Team(quick := Recorder("quick"), routes=routes)
    receivers = {**team.receivers, **{name: (door,) for name, door in doors.items()}}
    team.notifier.replace(replace(team.book, receivers=receivers))
    run(started, team)
    team.clock.now += WAIT
    team.take(*map(lag, doors))
    assert all(door.came.wait(10) for door in doors.values())
    team.take(*map(lag, doors), lag())
    assert eventually(lambda: quick.messages)
    for door in doors.values():
        door.opened.set()


def test_a_group_whose_message_hangs_does_not_delay_the_other_groups_of_its_receiver(
    started: list[Team],
) -> None:
    class Half(Door):
        def send(self, message: Message) -> None:
            if message.alerts[0].labels["app"] == "shop":
                super().send(message)
            else:
                self.messages.append(message)

    door = Half()
    team = run(started, Team(door))
    team.clock.now += WAIT
    team.take(lag())
    assert door.came.wait(10)
    others = [lag(f"app {number}") for number in range(40)]
    team.take(lag(), *others)
    team.clock.now += WAIT
    assert eventually(lambda: len(door.messages) == len(others))


def test_stopping_does_not_wait_for_a_receiver_that_hangs(started: list[Team]) -> None:
    door = Door()
    team = run(started, Team(door))
    team.clock.now += WAIT
    team.take(lag())
    assert door.came.wait(10)
    stopping = threading.Thread(target=lambda: team.notifier.stop(0.5))
    stopping.start()
    stopping.join(30)
    assert not stopping.is_alive() and not door.messages
    assert team.notifier.problems() == ["the notifier does not run"]


def test_a_message_in_flight_at_the_stop_is_logged(started: list[Team]) -> None:
    door = Door()
    team = run(started, Team(door))
    team.clock.now += WAIT
    team.take(lag())
    assert door.came.wait(10)
    stopping = threading.Thread(target=lambda: team.notifier.stop(30))
    stopping.start()
    door.opened.set()
    stopping.join(60)
    assert team.outcomes() == [DeliveryOutcome.SENT]


# -- a store that is away --------------------------------------------------------------------------


def test_with_the_store_down_people_are_reported_and_it_is_noted_later_once_and_in_order(
    started: list[Team],
) -> None:
    team = Team(hook := Recorder("hook"))
    team.store.down = True
    team.take(lag())
    team.look(WAIT)
    team.take(resolved(lag(), NOW + 20))
    team.look(INTERVAL)
    assert (len(hook.messages), team.store.notes) == (2, [])
    team.store.down = False
    run(started, team)
    assert eventually(lambda: team.outcomes() == [DeliveryOutcome.SENT] * 2)
    assert [note.at for note in team.store.notes] == [NOW + WAIT, NOW + WAIT + INTERVAL]


def test_a_store_that_stays_away_is_stated_and_asked_once_in_a_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    team = Team(*[Recorder(f"hook {number}") for number in range(5)])
    team.store.down = True
    team.take(lag())
    with caplog.at_level(logging.ERROR):
        team.look(WAIT)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    assert team.store.asked == 1  # a store that hangs takes seconds each time


def test_a_note_that_cannot_be_stored_at_all_does_not_stop_the_next(caplog: pytest.LogCaptureFixture) -> None:
    team = Team(hook := Recorder("hook"))
    keep, refused = team.store.keep, []

    def keeps(note: NotificationLogEntry, reported: NotificationState | None) -> None:
        if not refused:
            refused.append(note)
            raise ValueError("no")
        keep(note, reported)

    team.notifier = Notifier(team.book, team.silence_state, keeps, "", team.clock)
    team.take(lag(), lag("pay"))
    with caplog.at_level(logging.ERROR):
        team.look(WAIT)
    assert (len(hook.messages), len(refused), len(team.store.notes)) == (2, 1, 1)


# -- restarts --------------------------------------------------------------------------------------


def test_what_was_reported_survives_a_restart() -> None:
    before = Team(hook := Recorder("hook"))
    before.take(lag())
    before.look(WAIT)
    after = before.again(lag())
    assert after.notifier.notified(lag().fingerprint) == before.store.notes[0]
    after.look(60)
    assert len(hook.messages) == 1
    after.look(REPEAT)
    assert reasons(hook) == ["first notification", "repeat interval elapsed"]


@pytest.mark.parametrize("ago", [10.0, 100_000.0])
def test_an_alert_that_ended_before_the_restart_is_reported_as_resolved_to_whom_knows_that_it_fired(
    ago: float,
) -> None:
    before = Team(hook := Recorder("hook"))
    before.take(lag())
    before.look(WAIT)
    before.clock.now += 200_000
    ended, unheard = resolved(lag(), before.clock.now - ago), resolved(lag("pay"), before.clock.now - ago)
    after = before.again(ended, unheard)
    after.look()
    assert reasons(hook) == ["first notification", "all alerts resolved"]
    assert [item.labels["app"] for item in hook.messages[1].alerts] == ["shop"]
    assert after.notifier.groups() == ()


def test_an_alert_that_fired_before_the_restart_and_was_not_reported_is_reported() -> None:
    after = Team(hook := Recorder("hook")).again(lag())
    after.look(WAIT)
    assert reasons(hook) == ["first notification"]


# -- other routes ----------------------------------------------------------------------------------


def test_with_other_routes_alerts_are_reported_to_others() -> None:
    team = Team(hook := Recorder("hook"), other=(new := Recorder("new"),))
    team.take(lag())
    team.look(WAIT)
    other = replace(team.book, config=config(ROUTES.replace("receiver: team", "receiver: other")))
    team.notifier.replace(other)
    team.look()
    team.take(resolved(lag(), team.clock.now))
    team.look(INTERVAL)
    assert (reasons(hook), reasons(new)) == (
        ["first notification"],
        ["first notification", "all alerts resolved"],
    )


def test_with_the_same_routes_nothing_is_reported_again() -> None:
    team = Team(hook := Recorder("hook"))
    team.take(lag())
    team.look(WAIT)
    team.notifier.replace(team.book)
    team.look()
    assert len(hook.messages) == 1


def test_a_group_that_went_with_its_route_while_it_was_reported_does_not_come_back(
    started: list[Team],
) -> None:
    door = Door()
    team = run(started, Team(door))
    team.clock.now += WAIT
    team.take(lag())
    assert door.came.wait(10)
    by_all = replace(team.book, config=config(ROUTES.replace("[app]", "[app, alertname]")))
    team.notifier.replace(by_all)
    door.opened.set()
    assert eventually(lambda: len(team.store.notes) == 2)
    assert [sorted(group.labels) for group in team.notifier.groups()] == [["alertname", "app"]]


# -- clocks and memory -----------------------------------------------------------------------------


def test_a_clock_that_is_set_back_does_not_keep_a_group_waiting(started: list[Team]) -> None:
    team = Team(hook := Recorder("hook"))
    team.take(lag())
    team.look(WAIT)
    team.clock.now -= 7200
    run(started, team)
    team.take(lag(), alert("Stuck", at=team.clock.now, app="shop"))
    assert eventually(lambda: all(g.due_at() <= team.clock.now + INTERVAL for g in team.notifier.groups()))
    team.clock.now += INTERVAL + 1
    assert eventually(lambda: len(hook.messages) == 2)


def test_groups_that_are_over_leave_nothing_in_memory() -> None:
    team = Team(Recorder("hook"))
    for number in range(20):
        team.take(item := lag(f"app {number}", at=team.clock.now))
        team.look(WAIT)
        team.take(resolved(item, team.clock.now))
        team.look(INTERVAL)
    notifier = team.notifier
    assert (notifier.groups(), notifier._last_entries, notifier._states) == ((), {}, {})
    assert len(team.store.notes) == 40


def test_a_group_of_thousands_is_taken_and_reported_as_one() -> None:
    team = Team(hook := Recorder("hook"), routes=ROUTES.replace("[app]", "[alertname]"))
    many = [lag(f"app {number}") for number in range(3_000)]
    team.take(*many)
    team.look(WAIT)
    (message,) = hook.messages
    assert len(message.alerts) == 3_000


def test_an_annotation_of_a_megabyte_and_half_a_character_reach_the_receiver() -> None:
    team = Team(hook := Recorder("hook"))
    odd = replace(lag(), annotations={"summary": "x" * 1_000_000 + "\ud800"})
    team.take(odd)
    team.look(WAIT)
    assert hook.messages[0].alerts == (odd,)


def names(team: Team) -> list[GroupName]:
    return [group.name for group in team.notifier.groups()]


def test_a_flush_of_a_removed_group_does_nothing() -> None:
    team = Team(hook := Recorder("hook"))
    team.notifier.look(("{}:{}", "team"))
    assert (names(team), hook.messages, team.store.notes) == ([], [], [])


def test_a_reload_keeps_the_timers_of_groups() -> None:
    team = Team(hook := Recorder("hook"))
    team.take(lag())
    team.look(WAIT)
    team.look(INTERVAL - 20)
    team.notifier.replace(team.book)
    team.take(lag(), replace(lag(), labels={**lag().labels, "query": "new"}))
    team.look(10)
    assert len(hook.messages) == 1  # the next message waits for the group's interval, as without a reload
    team.look(10)
    assert len(hook.messages) == 2


def test_a_message_leads_to_query_and_silence_and_states_facts() -> None:
    hook = Recorder("hook")
    facts = {"Probable cause": "out of memory"}
    notifier = Notifier(
        book(receivers={"team": (hook,)}),
        SilenceStates(),
        Memory().keep,
        "http://page",
        clock := Clock(),
        facts=lambda alert: facts,
    )
    about = replace(lag(), labels={**lag().labels, "query_id": "q/1", "incident": "i/1"})
    notifier.take([about])
    clock.now += WAIT
    notifier.look(notifier.groups()[0].name)
    context = hook.messages[0].contexts[about.fingerprint]
    assert context.query == "http://page/query?query_id=q%2F1"
    assert context.incident == "http://page/incidents?incident=i%2F1"
    assert context.silence == f"http://page/alerts?alert={about.fingerprint}&silence=new"
    assert context.facts == facts
