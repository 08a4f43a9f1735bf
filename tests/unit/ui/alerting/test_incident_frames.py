"""Incidents as rows and sentences, and the incident of a query or an alert."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from tests.ui import factories, incident_factories
from tests.ui.factories import NOW
from tests.ui.incident_factories import DRIVER, SINK
from ui.alerting import incident_frames as frames


def an_open(**changes: Any) -> dict[str, Any]:
    return incident_factories.incident(NOW, **changes)


def ended(**changes: Any) -> dict[str, Any]:
    return incident_factories.of_driver(NOW, **changes)


def texts(cells: Any) -> list[str]:
    return [cell if isinstance(cell, str) else str(cell.get("text")) for cell in cells]


def test_open_incidents_come_first_and_a_row_answers_who_has_it() -> None:
    first, second = frames.rows([ended(began_at=factories.rfc3339(NOW)), an_open()], NOW)
    assert (first.key, second.key) == (SINK, DRIVER)
    shown = texts(first.cells)
    assert (
        shown[0] == "Sink s3a://lake/orders"
        and shown[1] == "2 down"
        and shown[4:] == ["Trying", "on-call", "nobody"]
    )
    assert texts(second.cells)[:2] == ["Driver of billing", "Ended"] and texts(second.cells)[-1] == "ada"
    assert second.cells[1]["note"].startswith("after ")  # type: ignore[index, call-overload]
    up = an_open(down=0, receivers=[])
    assert texts(frames.rows([up], NOW)[0].cells)[1::4] == ["All up again", "nobody"]


def test_the_facts_name_the_extent_and_what_is_missing() -> None:
    known = dict(frames.facts(an_open(), NOW, UTC))
    assert known["Affected"] == "3 queries of 2 applications (orders, payments)"
    assert known["Acknowledged"] == "Nobody has acknowledged it."
    assert known["Trial restart"].startswith("The restart of query-1 is being tried")
    later = dict(frames.facts(ended(receivers=[]), NOW, UTC))
    assert later["Notified"] == "Nobody has been notified."
    assert later["Acknowledged"] == "ada, 56 min ago: on it"
    assert later["Trial restart"] == frames.NO_TRIALS["driver"]


def test_a_query_belongs_to_the_open_incident_in_which_it_is_down() -> None:
    known = [an_open(), ended()]
    assert frames.of_query(known, factories.query_id(1)) == known[0]
    assert frames.of_query(known, factories.query_id(3)) is None  # up again
    assert frames.of_query(known, factories.query_id(4)) is None  # the incident has ended


def test_an_alert_leads_to_its_incident_by_label_query_or_driver() -> None:
    down = an_open(id="d", kind="driver", members=[incident_factories.member(7, NOW, "billing")])
    known = [an_open(), down]

    def found(**labels: str) -> str | None:
        return frames.of_alert(known, {"labels": labels})

    assert found(incident="gone") == "gone"
    assert found(query_id=factories.query_id(2)) == SINK
    assert found(layer="driver", app="billing") == "d"
    assert found(layer="driver", app="orders") is found(app="billing") is None


def test_the_alert_to_acknowledge_is_the_incidents_own_before_one_of_a_query() -> None:
    own = {"state": "firing", "query_id": None}
    inhibited = {"state": "firing", "query_id": "q", "inhibited_by": [{}]}
    loud = {"state": "firing", "query_id": "r"}
    assert frames.to_acknowledge({"alerts": [inhibited, loud, own]}) is own
    assert frames.to_acknowledge({"alerts": [inhibited, loud]}) is loud
    assert frames.to_acknowledge({"alerts": [inhibited, {**own, "state": "resolved"}]}) is None


def test_what_was_done_leaves_out_what_did_nothing() -> None:
    detail = incident_factories.detail(an_open(), NOW)
    assert [texts(row.cells)[0] for row in frames.done(detail, NOW, UTC)] == ["Page query-1", "Start query-1"]
    assert [texts(row.cells)[1] for row in frames.notifications(detail, NOW, UTC)] == ["Notified"]
    assert (
        frames.left_out(detail)
        == "Only the timeline has 1 decision to wait or hold and 1 notification not sent."
    )
    assert frames.left_out({}) == ""
    acted = {"decisions": [{"decision": "restart", "action_id": "a"}]}
    assert frames.done(acted, NOW, UTC) == []


def test_the_timeline_is_newest_first_and_bounded() -> None:
    event = {"at": factories.rfc3339(NOW), "kind": "alert", "text": "=1+1"}
    many = {"timeline": [{**event, "text": f"event {n}"} for n in range(frames.MAX_EVENTS + 5)]}
    shown = frames.events(many, NOW, UTC)
    assert len(shown) == frames.MAX_EVENTS and texts(shown[0].cells)[2] == f"event {frames.MAX_EVENTS + 4}"
    assert not texts(frames.events({"timeline": [event]}, NOW, UTC)[0].cells)[2].startswith("=")
