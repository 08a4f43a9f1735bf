"""What people see of alerts and do to them: muted by whom, silenced, acknowledged, on record."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from alerts.matching.labels import parse_matchers
from alerts.silences import Silence, SilenceState
from controlplane.alerting import alert_queries as module
from controlplane.alerting.alert_queries import worse_severity
from controlplane.alerting.views import AlertView, FiringAlert
from controlplane.errors import BadRequest, Conflict, NotFound
from controlplane.store.tables import audit
from tests.unit.controlplane.alerting.conftest import ROUTES, AlertingServices


def silence(
    services: AlertingServices, matchers: str = 'app="shop"', seconds: float = 3600, starts: float = 0
) -> Silence:
    now = services.clock.now
    return Silence("", parse_matchers(matchers), now + starts, now + starts + seconds, "ada", "known")


def fire(services: AlertingServices, *names: str, app: str = "shop") -> dict[str, AlertView]:
    for name in names:
        services.series.set(name, 0 if name == "up" else 1, app=app)
    services.tick()
    return seen(services)


def seen(services: AlertingServices) -> dict[str, AlertView]:
    return {view.alert.rule: view for view in services.queries.alerts(services.clock.now)}


def recorded(services: AlertingServices) -> list[tuple[str, str]]:
    with services.harness.engine.connect() as conn:
        return [(row.actor, row.action) for row in conn.execute(sa.select(audit).order_by(audit.c.key))]


# -- alerts ----------------------------------------------------------------------------------------


def test_an_alert_shows_who_is_reported_and_what_inhibits_it(services: AlertingServices) -> None:
    found = fire(services, "up", "slow")
    assert found["Down"].receivers == ("team",)
    assert [item.rule for item in found["Slow"].inhibited_by] == ["Down"]
    assert (found["Slow"].muted, found["Down"].muted) == (True, False)
    assert found["Down"].group == "one"


def test_an_alert_is_deliverable_where_its_receiver_has_a_webhook(services: AlertingServices) -> None:
    assert not fire(services, "up")["Down"].deliverable
    hooks = {"webhook_configs": [{"url": "http://127.0.0.1:1/hook"}]}
    (services.folder / "notify.yaml").write_text(
        ROUTES.replace("{name: team}", str({"name": "team", **hooks}))
    )
    services.service.reload()
    assert seen(services)["Down"].deliverable
    assert services.queries.delivery_problem() is None


def test_a_resolved_alert_is_muted_by_nothing(services: AlertingServices) -> None:
    fire(services, "up", "slow")
    services.queries.add_silence(silence(services), "ada", "test")
    services.series.set("slow", 0, app="shop")
    services.tick()
    assert (seen(services)["Slow"].silenced_by, seen(services)["Slow"].inhibited_by) == ((), ())


def test_an_alert_is_found_by_its_fingerprint_even_when_it_is_long_over(services: AlertingServices) -> None:
    name = fire(services, "up")["Down"].alert.fingerprint
    services.series.set("up", 1, app="shop")
    for _ in range(3):
        services.tick(1000)
    assert seen(services) == {}
    assert services.queries.alert(name, services.clock.now).alert.state == "resolved"
    with pytest.raises(NotFound, match="no alert 00"):
        services.queries.alert("00", services.clock.now)


def test_firing_counts_what_is_not_muted_by_query_or_application(services: AlertingServices) -> None:
    fire(services, "up", "slow")
    services.series.set("up", 0, app="shop", query_id="q")
    services.tick()
    warning = FiringAlert("Down", "warning")
    assert services.queries.firing(services.clock.now) == {"shop": (warning,), "q": (warning,)}
    services.queries.add_silence(silence(services, 'query_id="q"'), "ada", "test")
    assert services.queries.firing(services.clock.now) == {"shop": (warning,)}


def test_the_history_has_what_fired_with_its_last_message(services: AlertingServices) -> None:
    fire(services, "up")
    services.look()
    (view,) = services.queries.history(0.0, services.clock.now, None, 10)
    assert view.notified is not None and view.notified.receiver == "hook"
    assert services.queries.history(0.0, services.clock.now, "nobody", 10) == []


def test_the_history_of_a_query_has_the_alerts_of_its_driver(services: AlertingServices) -> None:
    """Such an alert is one for all queries of an application."""
    fire(services, "up")
    fire(services, "up", app="other")
    services.series.set("up", 0, app="shop", query_id="q")
    services.series.set("up", 0, app="shop", query_id="p")
    services.tick()
    found = services.queries.history(0.0, services.clock.now, "q", 10, "shop")
    labels = {(view.alert.labels["app"], view.alert.labels.get("query_id")) for view in found}
    assert labels == {("shop", "q"), ("shop", None)}
    assert len(services.queries.history(0.0, services.clock.now, "q", 1, "shop")) == 1


def test_the_worse_of_two_severities_is_the_louder_one() -> None:
    pairs = [("info", "critical"), ("", "info"), ("warning", "odd"), ("", "odd")]
    assert [worse_severity(*pair) for pair in pairs] == ["critical", "info", "warning", "odd"]
    assert [worse_severity(other, item) for item, other in pairs] == ["critical", "info", "warning", "odd"]


# -- acknowledgements ------------------------------------------------------------------------------


def test_an_acknowledged_alert_is_not_repeated_and_who_did_it_survives_a_restart(
    services: AlertingServices,
) -> None:
    name = fire(services, "up")["Down"].alert.fingerprint
    services.look()
    view = services.queries.acknowledge(name, "ada", "test", "looking")
    assert view.acknowledgement is not None and view.acknowledgement.comment == "looking"
    services.look(7200)
    assert len(services.hook.messages) == 1
    services.service = services.opened()
    assert seen(services)["Down"].acknowledgement == view.acknowledgement
    assert recorded(services) == [("ada", "alert.acknowledge")]


def test_an_alert_that_fires_anew_is_not_acknowledged(services: AlertingServices) -> None:
    name = fire(services, "up")["Down"].alert.fingerprint
    services.queries.acknowledge(name, "ada", "test", "")
    services.series.set("up", 1, app="shop")
    services.tick()
    with pytest.raises(Conflict, match="the alert is resolved"):
        services.queries.acknowledge(name, "ada", "test", "")
    assert fire(services, "up")["Down"].acknowledgement is None


# -- silences --------------------------------------------------------------------------------------


def test_a_silence_is_added_shown_ended_and_on_record(services: AlertingServices) -> None:
    fire(services, "up")
    added = services.queries.add_silence(silence(services, 'app=~"sh.+"'), "ada", "test")
    assert seen(services)["Down"].silenced_by == (added.id,)
    services.look()
    assert services.hook.messages == []
    services.clock.now += 5
    ended = services.queries.expire_silence(added.id, "bob", "test")
    assert ended.state(services.clock.now) is SilenceState.EXPIRED
    assert services.queries.expire_silence(added.id, "bob", "test") == ended
    assert recorded(services) == [("ada", "silence.add"), ("bob", "silence.expire")]
    assert services.opened().queries.silences(services.clock.now) == (ended,)


def test_a_silence_is_changed_in_place_or_followed_by_another(services: AlertingServices) -> None:
    added = services.queries.add_silence(silence(services), "ada", "test")
    services.clock.now += 5
    longer = services.queries.change_silence(
        added.id, replace(added, ends_at=added.ends_at + 60), "ada", "test"
    )
    assert longer.id == added.id
    other = replace(longer, matchers=parse_matchers('app="pay"'))
    after = services.queries.change_silence(added.id, other, "ada", "test")
    assert after.id != added.id
    states = {
        item.id: item.state(services.clock.now) for item in services.queries.silences(services.clock.now)
    }
    assert states == {after.id: SilenceState.ACTIVE, added.id: SilenceState.EXPIRED}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"matchers": ()}, "at least one matcher"),
        ({"matchers": parse_matchers('app=~".*"')}, "since all alerts would be silenced"),
        ({"ends_at": 0.0}, "must end after it starts"),
        ({"created_by": ""}, "needs a creator"),
    ],
)
def test_what_is_wrong_with_a_silence_is_stated(
    services: AlertingServices, wrong: dict[str, object], text: str
) -> None:
    with pytest.raises(BadRequest, match=text):
        services.queries.add_silence(replace(silence(services), **wrong), "ada", "test")
    assert services.queries.silences(services.clock.now) == ()


def test_silences_are_bounded_and_ended_ones_do_not_count(
    services: AlertingServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SILENCES", 1)
    first = services.queries.add_silence(silence(services), "ada", "test")
    with pytest.raises(Conflict, match="expire some first"):
        services.queries.add_silence(silence(services), "ada", "test")
    services.queries.expire_silence(first.id, "ada", "test")
    services.queries.add_silence(silence(services), "ada", "test")


def test_a_silence_that_is_not_there_is_stated(services: AlertingServices) -> None:
    for ask in (services.queries.silence, lambda id: services.queries.expire_silence(id, "ada", "test")):
        with pytest.raises(NotFound, match="no silence gone"):
            ask("gone")


# -- the log ---------------------------------------------------------------------------------------


def test_the_log_and_the_groups_show_what_was_reported(services: AlertingServices) -> None:
    found = fire(services, "up")
    services.look()
    (note,) = services.queries.notes(10, found["Down"].alert.fingerprint)
    (group,) = services.queries.groups(services.clock.now)
    assert (note.group_key, note.outcome) == (group.key, "sent")
    assert services.queries.notes(10, "0" * 16) == []


def test_a_trial_reaches_a_receiver_and_is_in_the_audit_log(services: AlertingServices) -> None:
    services.queries._book = replace(services.queries._book, receivers={"team": (services.hook,)})
    (result,) = services.queries.try_receiver("team", "ann", "token")
    assert (result.name, result.error) == ("hook", None)
    assert [message.status for message in services.hook.messages] == ["firing", "resolved"]
    assert recorded(services) == [("ann", "receiver.try")]
    with pytest.raises(NotFound, match="there is no receiver 'nobody'; configured: "):
        services.queries.try_receiver("nobody", "ann", "token")
    services.queries._book = replace(services.queries._book, receivers={})
    with pytest.raises(Conflict, match="no integration"):
        services.queries.try_receiver("team", "ann", "token")
