"""From a group that is due to a message that was taken, step by step, with a recorder as receiver."""

from __future__ import annotations

from dataclasses import replace

from alerts.acknowledgements import acknowledge
from alerts.errors import ReceiverError
from alerts.grouping import Group
from alerts.inhibition import Inhibitor, InhibitRule
from alerts.matching.labels import parse_matchers
from alerts.notify.reasons import NotificationState, Reason
from alerts.notify.receivers.recorder import Recorder
from alerts.notify.stages import NotificationContext, NotificationOutcome, flush
from alerts.routing import Timing
from alerts.silences import Silence
from alerts.state import Alert
from alerts.time_intervals import Schedule, TimeInterval, TimePeriod
from tests.unit.alerts.examples import alert, resolved

A, B = alert("A", app="shop"), alert("B", app="shop")
TIMING = Timing(30, 300, 3600)
PLAIN = NotificationContext(Inhibitor((), ()), external_url="http://here")


def group(*alerts: Alert) -> Group:
    return Group(
        '{}:{app="shop"}', "hook", {"app": "shop"}, TIMING, 1000.0, {a.fingerprint: a for a in alerts}
    )


def look(
    *alerts: Alert,
    last: NotificationState | None = None,
    context: NotificationContext = PLAIN,
    receiver: Recorder | None = None,
    now: float = 2000.0,
) -> NotificationOutcome:
    return flush(group(*alerts), receiver or Recorder(), last, context, now)


def silence(selector: str) -> Silence:
    return Silence("s1", parse_matchers(selector), 0, 10_000, "ann", "")


def test_a_group_without_a_notification_is_notified_and_logged() -> None:
    receiver = Recorder()
    outcome = look(A, B, receiver=receiver)
    assert outcome.sent
    assert outcome.state == NotificationState(frozenset({A.fingerprint, B.fingerprint}), frozenset(), 2000.0)
    (message,) = receiver.messages
    assert (message.reason, message.group_key, message.external_url) == (
        Reason.FIRST,
        '{}:{app="shop"}',
        "http://here",
    )
    assert len(message.alerts) == 2


def test_reported_again_nothing_is_sent_and_the_reason_is_kept() -> None:
    first = look(A)
    again = look(A, last=first.state, now=2300)
    assert (again.message, again.state, again.sent) == (None, None, False)
    assert "nothing new" in again.explanation


def test_the_end_of_an_alert_is_reported_once() -> None:
    first = look(A)
    over = resolved(A, 2100)
    second = look(over, last=first.state, now=2300)
    assert second.message is not None
    assert (second.message.status, second.message.reason) == ("resolved", Reason.ALL_RESOLVED)
    assert not look(over, last=second.state, now=2600).sent


def test_who_does_not_want_ends_gets_no_message_of_them_but_it_is_noted() -> None:
    quiet = Recorder(sends_resolved=False)
    outcome = look(resolved(A, 1500), last=look(A).state, receiver=quiet)
    assert (quiet.messages, outcome.sent) == ([], False)
    assert outcome.state is not None
    assert outcome.state.firing == frozenset()


def test_a_silenced_alert_is_not_sent_and_the_silence_is_named() -> None:
    context = NotificationContext(Inhibitor((), ()), [silence("alertname=A")])
    outcome = look(A, B, context=context)
    assert outcome.message is not None
    assert outcome.message.alerts == (B,)
    assert outcome.muted[A.fingerprint].ids == ("s1",)
    assert "1 muted" in outcome.explanation


def test_a_group_that_is_muted_as_a_whole_is_not_reported_and_not_noted() -> None:
    context = NotificationContext(Inhibitor((), ()), [silence("app=shop")])
    outcome = look(A, last=NotificationState(frozenset({A.fingerprint}), frozenset(), 0), context=context)
    assert (outcome.sent, outcome.state) == (False, None)
    assert outcome.explanation.startswith("all alerts are muted")


def test_an_inhibited_alert_is_not_sent_and_its_inhibitor_is_named() -> None:
    rule = InhibitRule(parse_matchers("alertname=A"), parse_matchers("alertname=B"), ("app",))
    outcome = look(A, B, context=NotificationContext(Inhibitor([rule], [A, B])))
    assert outcome.message is not None
    assert outcome.message.alerts == (A,)
    assert (outcome.muted[B.fingerprint].by, outcome.muted[B.fingerprint].ids) == (
        "inhibition",
        (A.fingerprint,),
    )


def test_a_message_that_may_pass_later_is_not_noted_so_that_it_is_tried_again() -> None:
    receiver = Recorder(failures=[ReceiverError("away", retryable=True)])
    outcome = look(A, receiver=receiver)
    assert (outcome.sent, outcome.state, outcome.retries) == (False, None, True)
    assert "delivery failed: away" in outcome.explanation
    assert look(A, receiver=receiver).sent


def test_a_message_that_is_refused_is_not_hurried_and_tried_again_at_the_next_look() -> None:
    receiver = Recorder(failures=[ReceiverError("wrong token", retryable=False)])
    outcome = look(A, receiver=receiver)
    assert (outcome.sent, outcome.retries, outcome.state) == (False, False, None)
    assert look(A, last=outcome.state, receiver=receiver, now=2300).sent


def test_an_acknowledged_alert_is_not_repeated() -> None:
    reported = look(A).state
    context = NotificationContext(Inhibitor((), ()), acknowledgements=[acknowledge(A, "ann", 2100)])
    assert not look(A, last=reported, context=context, now=9000).sent
    assert look(A, last=reported, now=9000).sent


def test_sent_and_not_noted_it_is_sent_twice_with_the_same_key() -> None:
    """The server was ended between sending and noting."""
    receiver = Recorder()
    look(A, receiver=receiver)
    look(A, receiver=receiver, now=2600)
    assert len({message.group_key for message in receiver.messages}) == 1
    assert len(receiver.messages) == 2


def test_every_alert_has_a_link_to_its_page() -> None:
    context = NotificationContext(Inhibitor((), ()), generator_url=lambda item: f"http://here/{item.rule}")
    message = look(A, context=context).message
    assert message is not None
    assert message.generator_urls == {A.fingerprint: "http://here/A"}


def test_a_group_is_muted_in_its_time_intervals_and_the_interval_is_named() -> None:
    night = TimeInterval("night", (TimePeriod(times=((0, 60),)),))
    quiet = replace(group(A), schedule=Schedule(muted=(night,)))
    receiver = Recorder()
    muted = flush(quiet, receiver, None, PLAIN, 3599.0)
    assert (muted.sent, muted.state, muted.muted[A.fingerprint].by) == (False, None, "time interval")
    assert muted.explanation.startswith("all alerts are muted by the time interval night")
    assert flush(quiet, receiver, None, PLAIN, 3600.0).sent
