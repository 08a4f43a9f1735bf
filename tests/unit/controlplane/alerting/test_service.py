"""The room over restarts and other files, on a real store."""

from __future__ import annotations

import os

import pytest

from alerts.state import RESOLVED_RETENTION
from tests.unit.controlplane.alerting.conftest import ROUTES, RULES, Rooms
from tests.unit.controlplane.alerting.parts import rule


def states(rooms: Rooms) -> dict[str, str]:
    return {view.alert.rule: view.alert.state.value for view in rooms.desk.alerts(rooms.clock.now)}


def told(rooms: Rooms) -> list[str]:
    return [message.reason.value for message in rooms.hook.messages]


WITH_SECRET = """
route: {receiver: ops}
receivers:
  - name: ops
    webhook_configs: [{url: 'http://127.0.0.1:9/', http_config: {authorization: {credentials_file: TOKEN}}}]
"""


def change(rooms: Rooms, rules: str = RULES, routes: str = ROUTES) -> None:
    """Other files, as an editor leaves them."""
    rooms.write(rules, routes)
    for name in ("rules.yaml", "notify.yaml"):
        os.utime(rooms.folder / name, (rooms.clock.now, rooms.clock.now))
    rooms.room.reload()


def test_an_alert_goes_its_way_through_scrape_rules_store_and_message(rooms: Rooms) -> None:
    rooms.series.set("up", 0, app="shop")
    rooms.tick()
    rooms.look()
    assert rooms.series.scraped == [rooms.clock.now - 10]
    assert (states(rooms), told(rooms)) == ({"Down": "firing"}, ["first notification"])
    (view,) = rooms.opened().desk.alerts(rooms.clock.now)
    assert (view.alert.rule, view.reason) == ("Down", "the condition holds")


def test_after_a_restart_nothing_is_told_again_and_the_end_is_told(rooms: Rooms) -> None:
    rooms.series.set("up", 0, app="shop")
    rooms.tick()
    rooms.look()
    rooms.room = rooms.opened()
    rooms.look(60)
    assert told(rooms) == ["first notification"]
    rooms.series.set("up", 1, app="shop")
    rooms.tick()
    rooms.look(300)
    assert told(rooms) == ["first notification", "all alerts resolved"]


@pytest.mark.parametrize("away", [60.0, RESOLVED_RETENTION + 60, 7 * 86_400.0])
def test_an_end_that_was_stored_but_not_told_is_told_after_the_restart(rooms: Rooms, away: float) -> None:
    rooms.series.set("up", 0, app="shop")
    rooms.tick()
    rooms.look()
    rooms.series.set("up", 1, app="shop")
    rooms.tick()
    rooms.clock.now += away
    rooms.room = rooms.opened()
    rooms.tick()
    rooms.look(300)
    assert told(rooms) == ["first notification", "all alerts resolved"]
    rooms.room = rooms.opened()
    rooms.look(300)
    assert len(told(rooms)) == 2


def test_other_rules_are_taken_up_and_the_series_they_read_too(rooms: Rooms) -> None:
    rooms.series.set("up", 0, app="shop")
    rooms.tick()
    change(rooms, RULES.replace("Down", "Gone"))
    assert rooms.series.kept == [("%s/rules.yaml;one" % rooms.folder,)] * 2
    rooms.tick()
    assert states(rooms) == {"Down": "resolved", "Gone": "firing"}
    assert {view.rule.name for group in rooms.desk.rules() for view in group.rules} == {"Gone", "Slow"}


def test_a_rule_that_moves_to_another_group_is_told_as_firing_only(rooms: Rooms) -> None:
    rooms.series.set("up", 0, app="shop")
    rooms.tick()
    rooms.look()
    change(rooms, "groups:\n- name: new\n  rules:\n" + rule("Down", "up == 0"))
    rooms.tick()
    for _ in range(4):
        rooms.look(300)
    assert told(rooms) == ["first notification"]


@pytest.mark.parametrize(
    "broken",
    [{"rules": "groups: {"}, {"rules": RULES.replace("up == 0", "up ===")}, {"routes": "route: {}"}],
    ids=["no yaml", "no promql", "no receiver"],
)
def test_files_with_mistakes_change_nothing_and_the_log_names_them_once(
    rooms: Rooms, broken: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    change(rooms, **broken)
    lines = [record.getMessage() for record in caplog.records]
    assert lines and all(line.startswith("the rules stay as they were: ") for line in lines)
    rooms.room.reload()
    assert len(caplog.records) == len(lines)
    rooms.series.set("up", 0, app="shop")
    rooms.tick()
    assert states(rooms) == {"Down": "firing"}


def test_a_file_that_is_gone_for_a_moment_changes_nothing(rooms: Rooms) -> None:
    text = (rooms.folder / "rules.yaml").read_text()
    (rooms.folder / "rules.yaml").unlink()
    rooms.room.reload()
    (rooms.folder / "rules.yaml").write_text(text)
    rooms.room.reload()
    assert [group.group.name for group in rooms.desk.rules()] == ["one"]


def test_rules_that_are_new_get_the_past_of_what_they_read(rooms: Rooms) -> None:
    change(rooms, rules=RULES.replace("up == 0", "down == 1"))
    assert rooms.series.filled == 1


def test_a_secret_that_was_renewed_is_read_again(rooms: Rooms) -> None:
    secret = rooms.folder / "token"
    secret.write_text("old")
    change(rooms, routes=WITH_SECRET.replace("TOKEN", str(secret)))
    (hook,) = rooms.room.notifier._book.receivers["ops"]
    assert hook.headers == {"Authorization": "Bearer old"}  # type: ignore[attr-defined]
    secret.unlink()
    rooms.room.reload()
    secret.write_text("renewed")
    rooms.room.reload()
    (hook,) = rooms.room.notifier._book.receivers["ops"]
    assert hook.headers == {"Authorization": "Bearer renewed"}  # type: ignore[attr-defined]


def test_files_that_did_not_change_are_not_read_again(rooms: Rooms) -> None:
    rooms.room.reload()
    assert len(rooms.series.kept) == 1


def test_what_is_old_is_forgotten_but_not_of_what_still_fires(rooms: Rooms) -> None:
    rooms.series.set("up", 0, app="shop")
    rooms.tick()
    rooms.look()
    (view,) = rooms.desk.alerts(rooms.clock.now)
    rooms.desk.acknowledge(view.alert.fingerprint, "ada", "test", "looking")
    rooms.clock.now += 30 * 86_400
    rooms.room.prune(rooms.clock.now - 14 * 86_400)
    rooms.room = rooms.opened()
    rooms.look(0)
    assert told(rooms) == ["first notification"]
    (again,) = rooms.desk.alerts(rooms.clock.now)
    assert again.acknowledgement is not None and again.acknowledgement.by == "ada"


def test_what_does_not_run_is_named(rooms: Rooms) -> None:
    assert rooms.room.late() == ["the rules do not run", "the notifier does not run"]
    rooms.room.start()
    try:
        assert rooms.room.late() == []
    finally:
        rooms.room.stop()
