"""When alerts are sent to an Alertmanager, and what follows where it fails; its silences."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from alerts.errors import ReceiverError
from alerts.matching.labels import Matcher
from alerts.notify.alertmanagers import AlertmanagerEndpoint
from alerts.notify.http.client import HttpClient
from alerts.silences import Silence
from alerts.state import Alert, AlertState
from controlplane.alerting import delivery
from controlplane.alerting.alertmanager_push import AlertmanagerPush, AlertmanagerPushes, due
from controlplane.alerting.received_alerts import PostedAlert
from tests.unit.alerts.examples import alert, resolved
from tests.unit.controlplane.alerting.conftest import AlertingServices
from tests.unit.controlplane.alerting.parts import NOW, Clock, book

FIRING = alert("Down", NOW, app="shop")
PENDING = replace(FIRING, state=AlertState.PENDING, fired_at=None)
SILENCE = Silence("s-1", (Matcher("app", "=", "shop"),), NOW, NOW + 3600, "ada", "planned")


@pytest.mark.parametrize(
    ("item", "sent_at", "now", "expected"),
    [
        (PENDING, None, NOW, False),
        (FIRING, None, NOW, True),
        (FIRING, NOW, NOW + 59, False),
        (FIRING, NOW, NOW + 60, True),
        (FIRING, NOW + 500, NOW + 10, True),  # a clock set back
        (resolved(FIRING, NOW + 5), NOW, NOW + 15, True),
        (resolved(FIRING, NOW + 5), NOW + 15, NOW + 60, False),
        (resolved(FIRING, NOW + 5), NOW + 15, NOW + 75, True),
        (replace(FIRING, fired_at=NOW + 30), NOW + 20, NOW + 30, True),
    ],
)
def test_an_alert_is_due_when_it_changes_and_each_minute(
    item: Alert, sent_at: float | None, now: float, expected: bool
) -> None:
    sent = {} if sent_at is None else {item.fingerprint: sent_at}
    assert bool(list(due([item], sent, now))) is expected


class FakeAlertmanager(AlertmanagerEndpoint):
    """Records what it gets; `answers` are the errors to raise first."""

    def __init__(self, *answers: ReceiverError) -> None:
        super().__init__("http://am:9093", HttpClient())
        object.__setattr__(self, "answers", list(answers))
        object.__setattr__(self, "batches", [])

    answers: list[ReceiverError]
    batches: list[list[Any]]

    def post_alerts(self, alerts: Any) -> None:
        if self.answers:
            raise self.answers.pop(0)
        self.batches.append(list(alerts))

    def silences(self) -> tuple[Silence, ...]:
        return (SILENCE,)


def push(endpoint: FakeAlertmanager, clock: Clock) -> AlertmanagerPush:
    return AlertmanagerPush(endpoint, clock, lambda item: f"http://page/{item.rule}", {"site": "fra"}, 15.0)


def test_alerts_go_out_in_batches_with_links_and_external_labels() -> None:
    endpoint, clock = FakeAlertmanager(), Clock()
    pushed = push(endpoint, clock)
    pushed.take([PENDING, *(alert("Down", NOW, app=str(n)) for n in range(300))])
    pushed.round()
    assert [len(batch) for batch in endpoint.batches] == [256, 44]
    assert endpoint.batches[0][0]["generatorURL"] == "http://page/Down"
    assert endpoint.batches[0][0]["labels"]["site"] == "fra"
    pushed.round()
    assert (len(endpoint.batches), pushed.sent) == (2, 300)
    clock.now += 60
    pushed.round()
    assert pushed.sent == 600
    assert pushed.status.silences == (SILENCE,)


def test_only_the_server_that_certainly_is_active_sends_alerts() -> None:
    active = [False]

    class SlowAlertmanager(FakeAlertmanager):
        def post_alerts(self, alerts: Any) -> None:
            super().post_alerts(alerts)
            active[0] = False

    endpoint = SlowAlertmanager()
    pushed = AlertmanagerPush(endpoint, Clock(), lambda item: "", {}, 15.0, lambda: active[0])
    pushed.take([alert("Down", NOW, app=str(n)) for n in range(300)])
    pushed.round()
    assert endpoint.batches == []
    active[0] = True
    pushed.round()  # the lease is lost during the first request
    assert [len(batch) for batch in endpoint.batches] == [256]
    active[0] = True
    pushed.round()
    assert [len(batch) for batch in endpoint.batches] == [256, 44]


def test_a_failed_batch_is_sent_again_after_a_wait_that_grows() -> None:
    away = ReceiverError("am could not be reached", retryable=True)
    endpoint, clock = FakeAlertmanager(away, away), Clock()
    pushed = push(endpoint, clock)
    pushed.take([FIRING])
    tried = []
    for _ in range(20):
        pushed.round()
        tried.append(len(endpoint.answers))
        clock.now += 1
    assert tried == [1] * 5 + [0] * 15
    assert [len(batch) for batch in endpoint.batches] == [1]
    assert (pushed.failed, pushed.status.error) == (2, None)


def test_a_batch_that_is_refused_is_reported_and_the_next_one_goes_out() -> None:
    endpoint, clock = FakeAlertmanager(ReceiverError("answered 400", retryable=False)), Clock()
    pushed = push(endpoint, clock)
    pushed.take([alert("Down", NOW, app=str(n)) for n in range(257)])
    pushed.round()
    assert [len(batch) for batch in endpoint.batches] == [1]
    assert pushed.failed == 256


def test_an_alertmanager_that_fails_is_a_delivery_problem() -> None:
    endpoint, clock = FakeAlertmanager(ReceiverError("am could not be reached", retryable=True)), Clock()
    pushed = push(endpoint, clock)
    assert delivery.problem(book(), {}, [pushed.status]) is None
    pushed.take([FIRING])
    pushed.round()
    problem = delivery.problem(book(), {}, [pushed.status])
    assert problem is not None
    assert problem.summary.startswith("Alerts cannot be sent to the Alertmanager http://am:9093: am could")
    assert problem.remedy.startswith("Alerts reach nobody until")
    both = delivery.problem(book(), {}, [pushed.status, pushed.status])
    assert both is not None and both.summary.endswith(" (1 more Alertmanagers fail)")


def test_totals_stay_when_the_configuration_changes() -> None:
    pushes = AlertmanagerPushes(Clock(), lambda item: "")
    pushes.replace([FakeAlertmanager()], {}, 15.0)
    pushes.take([FIRING])
    pushes._pushes[0].round()
    pushes.replace([], {}, 15.0)
    assert (pushes.totals(), pushes.statuses()) == ((1, 0), ())


def test_posted_alerts_are_not_passed_on(services: AlertingServices) -> None:
    """Two servers that send to each other would keep an alert alive for ever."""
    endpoint = FakeAlertmanager()
    services.service.pushes.replace([endpoint], {}, 15.0)
    services.series.set("up", 0, app="shop")
    services.tick()
    services.service.post_alerts([PostedAlert({"alertname": "Posted"})], "prometheus")
    services.service.pushes._pushes[0].round()
    assert [[item["labels"]["alertname"] for item in batch] for batch in endpoint.batches] == [["Down"]]


def test_an_alert_is_valid_for_four_intervals_of_its_group() -> None:
    endpoint, slow, quick = FakeAlertmanager(), alert("Slow", NOW), alert("Quick", NOW)
    pushed = AlertmanagerPush(endpoint, Clock(), lambda item: "", {}, 15.0)
    pushed.take([slow, quick], {slow.fingerprint: 300.0})
    pushed.round()
    ends = {item["labels"]["alertname"]: item["endsAt"][11:19] for item in endpoint.batches[0]}
    begin = datetime.fromtimestamp(NOW, UTC)
    assert ends == {
        "Slow": f"{begin + timedelta(minutes=20):%H:%M:%S}",
        "Quick": f"{begin + timedelta(minutes=4):%H:%M:%S}",
    }
