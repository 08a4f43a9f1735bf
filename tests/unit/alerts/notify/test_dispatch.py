"""Rounds of notification over a simulated day: what is due is reported, failures are tried again, ends are reported once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from alerts import grouping
from alerts.errors import ReceiverError
from alerts.grouping import Group, Groups, add_alerts
from alerts.inhibition import Inhibitor
from alerts.notify import config
from alerts.notify.catalogue import build
from alerts.notify.dispatch import Log, after_flush, flush_group, run_at_once
from alerts.notify.message import Message
from alerts.notify.reasons import NotificationState
from alerts.notify.receivers.base import Receiver
from alerts.notify.receivers.recorder import Recorder
from alerts.notify.stages import NotificationContext, NotificationOutcome
from alerts.routing import AlertRoute, Timing
from alerts.state import Alert
from alerts.templates.library import library
from tests.unit.alerts.examples import alert, resolved
from tests.unit.alerts.notify.receivers.fakes import PlainFiles, receiver

ROOT = AlertRoute("{}", "team", group_by=("app",), timing=Timing(30, 300, 3600))
PLAIN = NotificationContext(Inhibitor((), ()))


@dataclass(frozen=True)
class Round:
    """The groups after a round, and what became of each look, in the order of the looks."""

    groups: Groups
    outcomes: tuple[NotificationOutcome, ...]


def dispatch(
    groups: Groups,
    log: Log,
    receivers: Mapping[str, tuple[Receiver, ...]],
    context: NotificationContext,
    now: float,
    keep: Callable[[NotificationOutcome], None] = lambda outcome: None,
) -> Round:
    """Looks at every group that is due at `now`, one after the other."""
    after = dict(groups)
    outcomes: list[NotificationOutcome] = []
    for group in grouping.due(groups, now):
        looks = flush_group(group, log, receivers, context, now, keep)
        outcomes.extend(looks)
        left = after_flush(group, group, looks, now)
        if left is None:
            del after[group.name]
        else:
            after[group.name] = left
    return Round(after, tuple(outcomes))


class Queries:
    """Keeps groups and what was reported, as the server does."""

    def __init__(self, *receivers: Receiver, kept: dict[tuple[str, str], NotificationState] | None = None):
        self.receivers = {"team": receivers}
        self.groups: dict[tuple[str, str], Group] = {}
        self.log = {} if kept is None else kept

    def take(self, *alerts: Alert) -> None:
        self.groups = add_alerts(self.groups, alerts, ROOT)

    def round(self, now: float) -> Round:
        result = dispatch(self.groups, self.log, self.receivers, PLAIN, now, self._keep)
        self.groups = dict(result.groups)
        return result

    def _keep(self, outcome: NotificationOutcome) -> None:
        if outcome.state is not None:
            self.log[outcome.group.key, outcome.receiver] = outcome.state

    def through(self, start: float, end: float) -> list[float]:
        """Rounds every 5 s; when something was sent."""
        sent = []
        for tick in range(int((end - start) / 5)):
            now = start + 5 * tick
            sent += [now for outcome in self.round(now).outcomes if outcome.sent]
        return sent


def test_a_group_is_reported_after_its_wait_and_repeated_after_its_time() -> None:
    queries = Queries(Recorder("r"))
    queries.take(alert(at=0, app="shop"))
    assert queries.through(0, 8000) == [30, 3930, 7830]


def test_new_alerts_wait_for_the_groups_interval_and_ends_are_reported_once() -> None:
    receiver = Recorder("r")
    queries = Queries(receiver)
    first = alert("A", at=0, app="shop")
    queries.take(first)
    assert queries.through(0, 100) == [30]
    queries.take(second := alert("B", at=100, app="shop"))
    assert queries.through(100, 400) == [330]
    queries.take(resolved(first, 400), resolved(second, 410))
    assert queries.through(400, 3000) == [630]
    assert [message.reason.value for message in receiver.messages] == [
        "first notification",
        "new alerts added",
        "all alerts resolved",
    ]
    assert queries.groups == {}


def test_a_message_that_fails_is_tried_again_until_it_passes() -> None:
    away = [ReceiverError("away", retryable=True) for _ in range(3)]
    queries = Queries(Recorder("r", failures=away))
    queries.take(alert(at=0, app="shop"))
    assert queries.through(0, 400) == [65]  # 30, and again after 5, 10 and 20 s
    assert queries.through(400, 1000) == []


def test_of_two_receivers_only_the_one_that_failed_is_tried_again() -> None:
    good, bad = Recorder("good"), Recorder("bad", failures=[ReceiverError("away", retryable=True)])
    queries = Queries(good, bad)
    queries.take(alert(at=0, app="shop"))
    queries.through(0, 400)
    assert (len(good.messages), len(bad.messages)) == (1, 1)
    assert {message.receiver for message in (*good.messages, *bad.messages)} == {"team"}


def test_after_a_restart_nothing_that_was_reported_is_reported_again() -> None:
    first, fires = Queries(Recorder("r")), alert(at=0, app="shop")
    first.take(fires)
    first.through(0, 100)
    again = Queries(Recorder("r"), kept=first.log)
    again.take(fires)
    assert again.through(200, 3000) == []


def test_a_restart_between_sending_and_holding_sends_twice_and_never_not_at_all() -> None:
    receiver, fires = Recorder("r"), alert(at=0, app="shop")
    before = Queries(receiver)
    before.take(fires)
    before.round(30)
    after = Queries(receiver)  # what the first one kept is lost
    after.take(fires)
    after.through(40, 100)
    assert len(receiver.messages) == 2
    assert len({message.group_key for message in receiver.messages}) == 1


def test_a_receiver_without_a_webhook_is_shown_as_such() -> None:
    queries = Queries()
    queries.take(alert(at=0, app="shop"))
    assert [outcome.explanation for outcome in queries.round(30).outcomes] == [
        "receiver 'team' has no integration configured"
    ]
    assert queries.round(60).outcomes == ()


def test_each_outcome_is_kept_before_the_next_receiver_is_reported() -> None:
    reported: list[str] = []

    class Loud(Recorder):
        def send(self, message: object) -> None:
            reported.append(f"sent to {self.name}")

    groups = add_alerts({}, [alert(at=0, app="shop")], ROOT)
    receivers: dict[str, tuple[Receiver, ...]] = {"team": (Loud("a"), Loud("b"))}
    dispatch(groups, {}, receivers, PLAIN, 30, lambda outcome: reported.append(f"kept {outcome.receiver}"))
    assert reported.index("sent to a") < reported.index("kept a")
    assert reported.index("sent to b") < reported.index("kept b")


def test_a_slow_receiver_delays_no_other_of_its_group() -> None:
    """The first sends only once the second has sent."""
    sent = threading.Event()

    class Slow(Recorder):
        def send(self, message: Message) -> None:
            assert sent.wait(30)
            super().send(message)

    class Fast(Recorder):
        def send(self, message: Message) -> None:
            super().send(message)
            sent.set()

    slow, fast = Slow("slow"), Fast("fast")
    groups = add_alerts({}, [alert(at=0, app="shop")], ROOT)
    dispatch(groups, {}, {"team": (slow, fast)}, PLAIN, 30, lambda outcome: None)
    assert (len(slow.messages), len(fast.messages)) == (1, 1)


def test_a_retry_waits_as_long_as_the_receiver_asks() -> None:
    limited = Recorder("a", failures=[ReceiverError("limited", True, 429, 120.0)])
    groups = add_alerts({}, [alert(at=0, app="shop")], ROOT)
    (group,) = groups.values()
    outcomes = flush_group(group, {}, {"team": (limited,)}, PLAIN, 30, lambda outcome: None)
    after = after_flush(group, group, outcomes, 31)
    assert after is not None
    assert after.due_at() == 151


def test_receivers_are_built_from_the_configuration_and_the_files_it_names() -> None:
    text = """
route: {receiver: team}
receivers:
  - name: team
    webhook_configs:
      - {url: 'http://a/', max_alerts: 3, send_resolved: false}
      - {url_file: /url, http_config: {authorization: {credentials_file: /token}}}
  - name: nobody
"""
    loaded, _ = config.load(text)
    assert loaded is not None
    files = PlainFiles({"/url": "http://b/\n", "/token": " s3cret\n"})
    built = build(loaded, files, library())
    assert built["nobody"] == ()
    first, second = (limited.receiver.integration for limited in built["team"])  # type: ignore[attr-defined]
    assert (first.name, first.settings["url"], first.settings["max_alerts"]) == (
        "team/webhook[0]",
        "http://a/",
        3,
    )
    assert (second.name, second.settings["url"]) == ("team/webhook[1]", "http://b/")
    assert [receiver.sends_resolved for receiver in built["team"]] == [False, True]
    assert second.http.headers == {"Authorization": "Bearer s3cret"}


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ({"/url": "ftp://b/"}, "a URL must begin with"),
        ({"/url": "http://b/", "/token": "a\nb"}, "printable ASCII"),
    ],
)
def test_a_secret_file_that_cannot_be_used_is_reported(contents: dict[str, str], reason: str) -> None:
    settings = "{url_file: /url, http_config: {authorization: {credentials_file: /token}}}"
    with pytest.raises(ValueError, match=reason):
        receiver("webhook", settings, contents={"/token": "t", **contents})


def test_a_template_that_nobody_defines_is_reported() -> None:
    with pytest.raises(ValueError, match=r"a/slack\[0\]: title: there is no template 'nosuch'"):
        receiver("slack", "{api_url: 'http://a/', title: '{{ template \"nosuch\" . }}'}")


def test_work_that_fails_is_raised_and_the_rest_is_done() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        if number == 1:
            raise ValueError("broken")
        done.append(number)
        return number

    with pytest.raises(ValueError, match="broken"):
        run_at_once(work, (0, 1, 2))
    assert sorted(done) == [0, 2]
    assert run_at_once(lambda number: number * 2, (3, 4)) == (6, 8)
    assert run_at_once(lambda _: threading.current_thread().daemon, (1, 2)) == (True, True)
