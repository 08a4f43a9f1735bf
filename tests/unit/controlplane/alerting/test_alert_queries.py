"""What people see of alerts and do to them: muted by whom, silenced, acknowledged, on record."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from alerts.matching.labels import parse_matchers
from alerts.silences import Silence, SilenceState
from controlplane.alerting import alert_queries as module
from controlplane.alerting.alert_queries import worse
from controlplane.alerting.views import AlertView
from controlplane.errors import BadRequest, Conflict, NotFound
from controlplane.store.tables import audit
from tests.unit.controlplane.alerting.conftest import Rooms


def silence(rooms: Rooms, matchers: str = 'app="shop"', seconds: float = 3600, starts: float = 0) -> Silence:
    now = rooms.clock.now
    return Silence("", parse_matchers(matchers), now + starts, now + starts + seconds, "ada", "known")


def fire(rooms: Rooms, *names: str, app: str = "shop") -> dict[str, AlertView]:
    for name in names:
        rooms.series.set(name, 0 if name == "up" else 1, app=app)
    rooms.tick()
    return seen(rooms)


def seen(rooms: Rooms) -> dict[str, AlertView]:
    return {view.alert.rule: view for view in rooms.desk.alerts(rooms.clock.now)}


def recorded(rooms: Rooms) -> list[tuple[str, str]]:
    with rooms.harness.engine.connect() as conn:
        return [(row.actor, row.action) for row in conn.execute(sa.select(audit).order_by(audit.c.key))]


# -- alerts ----------------------------------------------------------------------------------------


def test_an_alert_shows_who_is_told_and_what_mutes_it(rooms: Rooms) -> None:
    found = fire(rooms, "up", "slow")
    assert found["Down"].receivers == ("team",)
    assert [one.rule for one in found["Slow"].inhibited_by] == ["Down"]
    assert (found["Slow"].muted, found["Down"].muted) == (True, False)
    assert found["Down"].group == "one"


def test_a_resolved_alert_is_muted_by_nothing(rooms: Rooms) -> None:
    fire(rooms, "up", "slow")
    rooms.desk.add_silence(silence(rooms), "ada", "test")
    rooms.series.set("slow", 0, app="shop")
    rooms.tick()
    assert (seen(rooms)["Slow"].silenced_by, seen(rooms)["Slow"].inhibited_by) == ((), ())


def test_an_alert_is_found_by_its_fingerprint_even_when_it_is_long_over(rooms: Rooms) -> None:
    name = fire(rooms, "up")["Down"].alert.fingerprint
    rooms.series.set("up", 1, app="shop")
    for _ in range(3):
        rooms.tick(1000)
    assert seen(rooms) == {}
    assert rooms.desk.alert(name, rooms.clock.now).alert.state == "resolved"
    with pytest.raises(NotFound, match="no alert 00"):
        rooms.desk.alert("00", rooms.clock.now)


def test_firing_counts_what_is_not_muted_by_query_or_application(rooms: Rooms) -> None:
    fire(rooms, "up", "slow")
    rooms.series.set("up", 0, app="shop", query_id="q")
    rooms.tick()
    assert rooms.desk.firing(rooms.clock.now) == {"shop": (1, "warning"), "q": (1, "warning")}
    rooms.desk.add_silence(silence(rooms, 'query_id="q"'), "ada", "test")
    assert rooms.desk.firing(rooms.clock.now) == {"shop": (1, "warning")}


def test_the_history_has_what_fired_with_its_last_message(rooms: Rooms) -> None:
    fire(rooms, "up")
    rooms.look()
    (view,) = rooms.desk.history(0.0, rooms.clock.now, None, 10)
    assert view.notified is not None and view.notified.receiver == "hook"
    assert rooms.desk.history(0.0, rooms.clock.now, "nobody", 10) == []


def test_the_worse_of_two_severities_is_the_louder_one() -> None:
    pairs = [("info", "critical"), ("", "info"), ("warning", "odd"), ("", "odd")]
    assert [worse(*pair) for pair in pairs] == ["critical", "info", "warning", "odd"]
    assert [worse(other, one) for one, other in pairs] == ["critical", "info", "warning", "odd"]


# -- acknowledgements ------------------------------------------------------------------------------


def test_an_acknowledged_alert_is_not_repeated_and_who_did_it_survives_a_restart(rooms: Rooms) -> None:
    name = fire(rooms, "up")["Down"].alert.fingerprint
    rooms.look()
    view = rooms.desk.acknowledge(name, "ada", "test", "looking")
    assert view.acknowledgement is not None and view.acknowledgement.comment == "looking"
    rooms.look(7200)
    assert len(rooms.hook.messages) == 1
    rooms.room = rooms.opened()
    assert seen(rooms)["Down"].acknowledgement == view.acknowledgement
    assert recorded(rooms) == [("ada", "alert.acknowledge")]


def test_an_alert_that_fires_anew_is_not_acknowledged(rooms: Rooms) -> None:
    name = fire(rooms, "up")["Down"].alert.fingerprint
    rooms.desk.acknowledge(name, "ada", "test", "")
    rooms.series.set("up", 1, app="shop")
    rooms.tick()
    with pytest.raises(Conflict, match="the alert is resolved"):
        rooms.desk.acknowledge(name, "ada", "test", "")
    assert fire(rooms, "up")["Down"].acknowledgement is None


# -- silences --------------------------------------------------------------------------------------


def test_a_silence_is_added_shown_ended_and_on_record(rooms: Rooms) -> None:
    fire(rooms, "up")
    added = rooms.desk.add_silence(silence(rooms, 'app=~"sh.+"'), "ada", "test")
    assert seen(rooms)["Down"].silenced_by == (added.id,)
    rooms.look()
    assert rooms.hook.messages == []
    rooms.clock.now += 5
    ended = rooms.desk.expire_silence(added.id, "bob", "test")
    assert ended.state(rooms.clock.now) is SilenceState.EXPIRED
    assert rooms.desk.expire_silence(added.id, "bob", "test") == ended
    assert recorded(rooms) == [("ada", "silence.add"), ("bob", "silence.expire")]
    assert rooms.opened().desk.silences(rooms.clock.now) == (ended,)


def test_a_silence_is_changed_in_place_or_followed_by_another(rooms: Rooms) -> None:
    added = rooms.desk.add_silence(silence(rooms), "ada", "test")
    rooms.clock.now += 5
    longer = rooms.desk.change_silence(added.id, replace(added, ends_at=added.ends_at + 60), "ada", "test")
    assert longer.id == added.id
    other = replace(longer, matchers=parse_matchers('app="pay"'))
    after = rooms.desk.change_silence(added.id, other, "ada", "test")
    assert after.id != added.id
    states = {one.id: one.state(rooms.clock.now) for one in rooms.desk.silences(rooms.clock.now)}
    assert states == {after.id: SilenceState.ACTIVE, added.id: SilenceState.EXPIRED}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"matchers": ()}, "at least one matcher"),
        ({"matchers": parse_matchers('app=~".*"')}, "or all alerts would be silenced"),
        ({"ends_at": 0.0}, "must end after it starts"),
        ({"created_by": ""}, "who made it"),
    ],
)
def test_what_is_wrong_with_a_silence_is_said(rooms: Rooms, wrong: dict[str, object], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        rooms.desk.add_silence(replace(silence(rooms), **wrong), "ada", "test")
    assert rooms.desk.silences(rooms.clock.now) == ()


def test_silences_are_bounded_and_ended_ones_do_not_count(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SILENCES", 1)
    first = rooms.desk.add_silence(silence(rooms), "ada", "test")
    with pytest.raises(Conflict, match="expire some first"):
        rooms.desk.add_silence(silence(rooms), "ada", "test")
    rooms.desk.expire_silence(first.id, "ada", "test")
    rooms.desk.add_silence(silence(rooms), "ada", "test")


def test_a_silence_that_is_not_there_is_said(rooms: Rooms) -> None:
    for ask in (rooms.desk.silence, lambda id: rooms.desk.expire_silence(id, "ada", "test")):
        with pytest.raises(NotFound, match="no silence gone"):
            ask("gone")


# -- the log ---------------------------------------------------------------------------------------


def test_the_log_and_the_groups_show_what_was_told(rooms: Rooms) -> None:
    found = fire(rooms, "up")
    rooms.look()
    (note,) = rooms.desk.notes(10, found["Down"].alert.fingerprint)
    (group,) = rooms.desk.groups(rooms.clock.now)
    assert (note.group_key, note.outcome) == (group.key, "sent")
    assert rooms.desk.notes(10, "0" * 16) == []
