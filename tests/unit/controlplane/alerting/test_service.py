"""The service over restarts and other files, on a real store."""

from __future__ import annotations

import os

import pytest

from alerts.state import RESOLVED_RETENTION_SECONDS
from tests.unit.controlplane.alerting.conftest import ROUTES, RULES, AlertingServices
from tests.unit.controlplane.alerting.parts import rule


def states(services: AlertingServices) -> dict[str, str]:
    return {view.alert.rule: view.alert.state.value for view in services.queries.alerts(services.clock.now)}


def reported(services: AlertingServices) -> list[str]:
    return [message.reason.value for message in services.hook.messages]


WITH_SECRET = """
route: {receiver: ops}
receivers:
  - name: ops
    webhook_configs: [{url: 'http://127.0.0.1:9/', http_config: {authorization: {credentials_file: TOKEN}}}]
"""


def change(services: AlertingServices, rules: str = RULES, routes: str = ROUTES) -> None:
    """Other files, as an editor leaves them."""
    services.write(rules, routes)
    for name in ("rules.yaml", "notify.yaml"):
        os.utime(services.folder / name, (services.clock.now, services.clock.now))
    services.service.reload()


def test_an_alert_goes_its_way_through_scrape_rules_store_and_message(services: AlertingServices) -> None:
    services.series.set("up", 0, app="shop")
    services.tick()
    services.look()
    assert services.series.scraped == [services.clock.now - 10]
    assert (states(services), reported(services)) == ({"Down": "firing"}, ["first notification"])
    (view,) = services.opened().queries.alerts(services.clock.now)
    assert (view.alert.rule, view.reason) == ("Down", "the condition holds")


def test_after_a_restart_nothing_is_reported_again_and_the_end_is_reported(
    services: AlertingServices,
) -> None:
    services.series.set("up", 0, app="shop")
    services.tick()
    services.look()
    services.service = services.opened()
    services.look(60)
    assert reported(services) == ["first notification"]
    services.series.set("up", 1, app="shop")
    services.tick()
    services.look(300)
    assert reported(services) == ["first notification", "all alerts resolved"]


@pytest.mark.parametrize("away", [60.0, RESOLVED_RETENTION_SECONDS + 60, 7 * 86_400.0])
def test_an_end_that_was_stored_but_not_reported_is_reported_after_the_restart(
    services: AlertingServices, away: float
) -> None:
    services.series.set("up", 0, app="shop")
    services.tick()
    services.look()
    services.series.set("up", 1, app="shop")
    services.tick()
    services.clock.now += away
    services.service = services.opened()
    services.tick()
    services.look(300)
    assert reported(services) == ["first notification", "all alerts resolved"]
    services.service = services.opened()
    services.look(300)
    assert len(reported(services)) == 2


def test_other_rules_are_taken_up_and_the_series_they_read_too(services: AlertingServices) -> None:
    services.series.set("up", 0, app="shop")
    services.tick()
    change(services, RULES.replace("Down", "Gone"))
    assert services.series.kept == [("%s/rules.yaml;one" % services.folder,)] * 2
    services.tick()
    assert states(services) == {"Down": "resolved", "Gone": "firing"}
    assert {view.rule.name for group in services.queries.rules() for view in group.rules} == {"Gone", "Slow"}


def test_a_rule_that_moves_to_another_group_is_reported_as_firing_only(services: AlertingServices) -> None:
    services.series.set("up", 0, app="shop")
    services.tick()
    services.look()
    change(services, "groups:\n- name: new\n  rules:\n" + rule("Down", "up == 0"))
    services.tick()
    for _ in range(4):
        services.look(300)
    assert reported(services) == ["first notification"]


@pytest.mark.parametrize(
    "broken",
    [{"rules": "groups: {"}, {"rules": RULES.replace("up == 0", "up ===")}, {"routes": "route: {}"}],
    ids=["no yaml", "no promql", "no receiver"],
)
def test_files_with_mistakes_change_nothing_and_the_log_names_them_once(
    services: AlertingServices, broken: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    change(services, **broken)
    lines = [record.getMessage() for record in caplog.records]
    assert lines and all(
        line.startswith("rules not reloaded, the loaded ones stay active: ") for line in lines
    )
    services.service.reload()
    assert len(caplog.records) == len(lines)
    services.series.set("up", 0, app="shop")
    services.tick()
    assert states(services) == {"Down": "firing"}


def test_a_file_missing_for_a_moment_changes_nothing(services: AlertingServices) -> None:
    text = (services.folder / "rules.yaml").read_text()
    (services.folder / "rules.yaml").unlink()
    services.service.reload()
    (services.folder / "rules.yaml").write_text(text)
    services.service.reload()
    assert [group.group.name for group in services.queries.rules()] == ["one"]


def test_rules_that_are_new_get_the_past_of_what_they_read(services: AlertingServices) -> None:
    change(services, rules=RULES.replace("up == 0", "down == 1"))
    assert services.series.filled == 1


def test_a_secret_that_was_renewed_is_read_again(services: AlertingServices) -> None:
    secret = services.folder / "token"
    secret.write_text("old")
    change(services, routes=WITH_SECRET.replace("TOKEN", str(secret)))
    (hook,) = services.service.notifier._book.receivers["ops"]
    assert hook.receiver.integration.http.headers == {"Authorization": "Bearer old"}  # type: ignore[attr-defined]
    secret.unlink()
    services.service.reload()
    secret.write_text("renewed")
    services.service.reload()
    (hook,) = services.service.notifier._book.receivers["ops"]
    assert hook.receiver.integration.http.headers == {"Authorization": "Bearer renewed"}  # type: ignore[attr-defined]


def test_files_that_did_not_change_are_not_read_again(services: AlertingServices) -> None:
    services.service.reload()
    assert len(services.series.kept) == 1


def test_what_is_old_is_forgotten_but_not_of_what_still_fires(services: AlertingServices) -> None:
    services.series.set("up", 0, app="shop")
    services.tick()
    services.look()
    (view,) = services.queries.alerts(services.clock.now)
    services.queries.acknowledge(view.alert.fingerprint, "ada", "test", "looking")
    services.clock.now += 30 * 86_400
    services.service.prune(services.clock.now - 14 * 86_400)
    services.service = services.opened()
    services.look(0)
    assert reported(services) == ["first notification"]
    (again,) = services.queries.alerts(services.clock.now)
    assert again.acknowledgement is not None and again.acknowledgement.by == "ada"


def test_what_does_not_run_is_named(services: AlertingServices) -> None:
    assert services.service.problems() == ["the rules do not run", "the notifier does not run"]
    services.service.start(lambda: False)
    try:
        assert services.service.problems() == []
    finally:
        services.service.stop()
