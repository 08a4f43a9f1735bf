"""Posted alerts: merged, ended, expired, stored; on a real service their notifications, over restarts."""

from __future__ import annotations

from controlplane.alerting import received_alerts as module
from controlplane.alerting.received_alerts import PostedAlert, ReceivedAlerts
from tests.unit.controlplane.alerting.conftest import AlertingServices
from tests.unit.controlplane.alerting.parts import NOW, Memory

DISK = {"alertname": "DiskFull", "app": "shop"}


def posted(ends_at: float | None = None, **given: str) -> PostedAlert:
    return PostedAlert({**DISK, **given}, {"summary": "full"}, NOW - 60, ends_at, "http://p/graph")


class Received:
    """Received alerts with their store."""

    def __init__(self) -> None:
        self.store = Memory()
        self.alerts = ReceivedAlerts(self.store.save, 300.0)

    def post(self, *items: PostedAlert, now: float = NOW) -> int:
        return self.alerts.take(items or (posted(),), "prometheus", now)

    def states(self) -> list[tuple[str, float | None]]:
        return [(item.alert.state.value, item.alert.resolved_at) for item in self.alerts.alerts()]


def test_a_posted_alert_fires_since_its_start_and_names_its_origin() -> None:
    received = Received()
    received.post()
    (item,) = received.alerts.alerts()
    assert item.alert.labels == {**DISK, "alert_source": "external"}
    assert (item.alert.fired_at, item.alert.generator_url) == (NOW - 60, "http://p/graph")
    assert (item.group, item.reason) == ("received", "posted by prometheus")
    assert received.store.became() == [("DiskFull", "firing")]


def test_an_origin_given_by_the_sender_stays_and_an_empty_label_goes() -> None:
    received = Received()
    received.post(posted(alert_source="eu", zone=""))
    (item,) = received.alerts.alerts()
    assert item.alert.labels == {**DISK, "alert_source": "eu"}


def test_an_alert_that_is_posted_again_goes_on_and_is_stored_once() -> None:
    received = Received()
    for number in range(10):
        received.post(now=NOW + 60 * number)
        received.alerts.expire(NOW + 60 * number)
    assert received.states() == [("firing", None)]
    assert received.store.became() == [("DiskFull", "firing")]


def test_an_alert_that_is_not_posted_again_ends_after_the_resolve_timeout() -> None:
    received = Received()
    received.post()
    received.alerts.expire(NOW + 299)
    assert received.states() == [("firing", None)]
    received.alerts.expire(NOW + 310)
    assert received.states() == [("resolved", NOW + 300)]
    assert received.store.became() == [("DiskFull", "firing"), ("DiskFull", "resolved")]
    received.alerts.expire(NOW + 310 + 900)
    assert received.states() == []


def test_an_end_in_the_past_resolves_and_one_in_the_future_counts() -> None:
    received = Received()
    received.post(posted(ends_at=NOW + 1000))
    received.alerts.expire(NOW + 999)
    assert received.states() == [("firing", None)]
    received.post(posted(ends_at=NOW + 1000), now=NOW + 1005)
    assert received.states() == [("resolved", NOW + 1000)]


def test_an_end_of_an_unknown_alert_leaves_nothing() -> None:
    received = Received()
    received.post(posted(ends_at=NOW - 1))
    assert (received.states(), received.store.became()) == ([], [])


def test_an_alert_that_fires_again_is_a_new_episode() -> None:
    received = Received()
    received.post()
    received.post(posted(ends_at=NOW + 10), now=NOW + 20)
    received.post(now=NOW + 30)
    assert received.states() == [("firing", None)]
    first, _, again = (change.transition for change in received.store.changes)
    assert again.before is None and again.alert.active_at > first.alert.active_at


def test_what_the_store_did_not_take_is_stored_later() -> None:
    received = Received()
    received.store.down = True
    received.post()
    assert (received.states(), received.store.became()) == ([("firing", None)], [])
    received.store.down = False
    received.alerts.expire(NOW + 1)
    assert received.store.became() == [("DiskFull", "firing")]


def test_alerts_beyond_the_limit_are_refused_and_known_ones_are_not() -> None:
    received, limit = Received(), module.MAX_RECEIVED_ALERTS
    assert received.post(*(posted(n=str(n)) for n in range(limit + 2))) == 2
    assert received.post(posted(n="0"), posted(n="new")) == 1


# -- in the service --------------------------------------------------------------------------------


def fired(services: AlertingServices) -> dict[str, str]:
    return {view.alert.rule: view.alert.state.value for view in services.queries.alerts(services.clock.now)}


def reasons(services: AlertingServices) -> list[str]:
    return [message.reason.value for message in services.hook.messages]


def test_a_posted_alert_is_notified_inhibits_and_survives_a_restart(services: AlertingServices) -> None:
    services.series.set("slow", 1, app="shop")
    services.tick()
    services.service.post_alerts([PostedAlert({"alertname": "Down", "app": "shop"})], "prometheus")
    assert fired(services) == {"Slow": "firing", "Down": "firing"}
    (slow,) = (v for v in services.queries.alerts(services.clock.now) if v.alert.rule == "Slow")
    assert [alert.rule for alert in slow.inhibited_by] == ["Down"]
    services.look()
    assert [[alert.rule for alert in message.alerts] for message in services.hook.messages] == [["Down"]]
    services.service = services.opened()
    services.tick(60)
    assert fired(services) == {"Slow": "firing", "Down": "firing"}
    services.tick(300)
    assert fired(services) == {"Slow": "firing", "Down": "resolved"}
    services.look(300)
    assert reasons(services)[0] == "first notification"
    assert "Down" in {a.rule for a in services.hook.messages[-1].alerts if a.resolved_at is not None}
