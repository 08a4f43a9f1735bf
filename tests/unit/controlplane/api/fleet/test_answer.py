"""The fleet as it is answered: the cached rows are those rendered anew, and changes lead to the same fleet."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.alerting.views import FiringAlert
from controlplane.api.bodies import FleetBody
from controlplane.api.fleet import answer
from controlplane.api.fleet.answer import FleetRequest
from controlplane.api.fleet.cache import FleetCache
from controlplane.errors import BadRequest
from controlplane.events.window import Window
from controlplane.health.verdicts import VerdictLog
from controlplane.model import QueryStatus, QueryView, RunEnd
from tests.random_histories import Fault, MemoryServer, random_history
from tests.unit.controlplane.situations import NOW, batches, ended, view

OVERRUN = FiringAlert("Overrun", "warning")
Rows = dict[str, Any]


def plane_of(window: Any, firing: dict[str, tuple[FiringAlert, ...]] | None = None) -> Any:
    return SimpleNamespace(
        window=window,
        fleet=window.fleet,
        verdicts=VerdictLog(),
        alerts=SimpleNamespace(firing=lambda now: dict(firing or {})),
        starts_of=lambda query_id: 1,
    )


def fleet_of(*views: QueryView) -> tuple[Any, FleetCache]:
    plane = plane_of(SimpleNamespace(fleet=lambda: list(views), views=lambda: list(views)))
    return plane, FleetCache(plane)


def document(plane: Any, cache: FleetCache, now: float = NOW, **request: Any) -> dict[str, Any]:
    wanted = FleetRequest(**request)
    wanted.check()
    found: dict[str, Any] = json.loads(answer.answer(plane, cache, wanted, now).body(now))
    FleetBody.model_validate({**found, "queries": [] if request.get("fields") else found["queries"]})
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [row["query_id"] for row in found["queries"]]


class Client:
    """Reads a filtered fleet whole once and then only what has changed."""

    def __init__(self, **request: Any):
        self._request, self._cursor, self.rows = request, None, Rows()

    def read(self, plane: Any, cache: FleetCache, now: float) -> None:
        found = document(plane, cache, now, since=self._cursor, **self._request)
        if "removed" not in found:
            self.rows.clear()
        for query_id in found.get("removed", ()):
            self.rows.pop(query_id, None)
        self.rows.update({row["query_id"]: row for row in found["queries"]})
        self._cursor = found["cursor"]


@pytest.mark.parametrize(
    ("seed", "fault"), [(1, Fault.NONE), (5, Fault.DISAPPEARS), (9, Fault.FAILS), (12, Fault.DIES)]
)
def test_over_a_random_history_the_cache_is_the_full_rendering_and_changes_add_up(
    seed: int, fault: Fault
) -> None:
    history, server, rng = random_history(seed, fault), MemoryServer(), random.Random(seed)
    firing: dict[str, tuple[FiringAlert, ...]] = {}
    plane = plane_of(server.window, firing)
    cache, clients = (
        FleetCache(plane),
        [Client(), Client(statuses=frozenset({QueryStatus.IDLE})), Client(search="q0")],
    )
    before: tuple[str, Rows] = ("", {})
    for request in history.requests():
        server.accept(request)
        if rng.random() > 0.15:
            continue
        now = request.arrives_at + rng.uniform(0, 3)
        for query_id in ("q0", "q1"):
            firing.pop(query_id, None)
            if rng.random() < 0.3:
                firing[query_id] = (OVERRUN,)
        for query_id in ("q1", "q2"):
            if rng.random() < 0.02:
                server.window.forget([query_id])
        cache._firing = (now, dict(firing))
        cached = answer.answer(plane, cache, FleetRequest(), now)
        assert cached.documents == answer.answer(plane, FleetCache(plane), FleetRequest(), now).documents
        if cached.etag == before[0]:
            assert cached.documents == before[1]
        before = cached.etag, cached.documents
        for client in clients:
            if rng.random() < 0.5:
                client.read(plane, cache, now)
                whole = document(plane, cache, now, **client._request)
                assert client.rows == {row["query_id"]: row for row in whole["queries"]}
    assert before[0]


def three() -> tuple[QueryView, QueryView, QueryView]:
    run = ended(RunEnd.FAILED, failure_text="boom")
    failed = view(query_id="q-failed", name="Orders", run=run, labels={"team": "data"})
    behind = view(query_id="q-behind", name="clicks", app="web", progress=batches([0] * 12))
    return failed, behind, view(query_id="q-new", name=None, app="web", progress=())


def test_the_worst_status_is_first_and_pages_follow_each_other() -> None:
    plane, cache = fleet_of(*three())
    whole = document(plane, cache)
    assert (whole["total"], sum(whole["counts"].values())) == (3, 3)
    assert ids(whole)[0] == "q-failed"
    pages = [document(plane, cache, limit=1, offset=offset) for offset in range(4)]
    assert [ids(page) for page in pages] == [[query_id] for query_id in ids(whole)] + [[]]
    assert all((page["total"], page["counts"]) == (3, whole["counts"]) for page in pages)


def test_a_page_renders_its_own_rows_only_and_none_while_others_are_rendered() -> None:
    plane, cache = fleet_of(*three())
    rendered: list[str] = []
    plane.starts_of = lambda query_id: rendered.append(query_id) or 1
    with cache._rendering:
        assert ids(document(plane, cache, limit=1, sort="alert_severity")) == ["q-failed"] == rendered
        document(plane, cache, limit=1)
    document(plane, cache)
    assert sorted(rendered) == ["q-behind", "q-failed", "q-new"]


@pytest.mark.parametrize("sort", ["", "alert_severity", "-status", "name", "-app", "batch_id", "-since"])
@pytest.mark.parametrize("search", ["", "web"])
def test_a_page_is_that_part_of_the_whole_fleet(sort: str, search: str) -> None:
    plane, cache = fleet_of(*three())
    whole = ids(document(plane, FleetCache(plane), sort=sort, search=search))
    pages = [ids(document(plane, cache, sort=sort, search=search, limit=1, offset=n)) for n in range(3)]
    assert [query_id for page in pages for query_id in page] == whole


def test_a_change_that_another_reader_sees_first_is_behind_the_cursor() -> None:
    views = list(three())
    plane = plane_of(SimpleNamespace(fleet=lambda: list(views), views=lambda: list(views)))
    cache = FleetCache(plane)

    class Overtaken(FleetRequest):
        def takes(self, view: QueryView) -> bool:
            if view.query_id == "q-failed" and view is views[0]:
                views[0] = replace(view, name="Renamed")
                document(plane, cache)
            return super().takes(view)

    found = json.loads(answer.answer(plane, cache, Overtaken(), NOW).body(NOW))
    assert found["queries"][0]["name"] == "Orders"
    assert ids(document(plane, cache, since=found["cursor"])) == ["q-failed"]


def test_any_of_several_statuses_and_apps_is_taken_and_the_counts_are_of_all_statuses() -> None:
    plane, cache = fleet_of(*three())
    statuses = frozenset({QueryStatus.FAILED, QueryStatus.STOPPED})
    found = document(plane, cache, apps=frozenset({three()[0].app, "web"}), statuses=statuses)
    assert (ids(found), found["total"]) == (["q-failed"], 1)
    assert sum(found["counts"].values()) == 3
    assert document(plane, cache, apps=frozenset({"web"}))["total"] == 2


def test_a_warning_comes_after_what_has_failed_and_the_newest_of_a_severity_first() -> None:
    failed, behind, new = three()
    quiet = view(query_id="q-quiet", name="quiet", app="web", progress=())
    plane = plane_of(SimpleNamespace(fleet=lambda: [quiet, new, behind, failed]), {new.query_id: (OVERRUN,)})
    assert ids(document(plane, FleetCache(plane), sort="alert_severity"))[:2] == ["q-failed", "q-new"]
    plane = plane_of(
        SimpleNamespace(fleet=lambda: [new, quiet]), {"q-new": (OVERRUN,), "q-quiet": (OVERRUN,)}
    )
    plane.verdicts.since = lambda query_id, status, at: {"q-new": NOW - 60, "q-quiet": NOW - 5}[query_id]
    assert ids(document(plane, FleetCache(plane), sort="alert_severity")) == ["q-quiet", "q-new"]


def test_the_choices_are_the_applications_and_labels_of_the_fleet() -> None:
    plane, cache = fleet_of(*three())
    found = document(plane, cache, choices=True, limit=1)
    assert found["choices"]["labels"] == ["team=data"]
    assert "web" in found["choices"]["apps"]


@pytest.mark.parametrize(
    ("search", "expected"),
    [("ORDERS", ["q-failed"]), ("web", ["q-behind", "q-new"]), ("data ord", ["q-failed"]), ("web ord", []),
     ("overrun", ["q-new"]), ("boom failed", ["q-failed"])],
)  # fmt: skip
def test_each_word_of_a_search_is_found(search: str, expected: list[str]) -> None:
    plane, cache = fleet_of(*three())
    plane.alerts.firing = lambda now: {"q-new": (OVERRUN,)}
    assert sorted(ids(document(plane, cache, search=search))) == expected


def test_rows_are_ordered_by_a_field_and_unknown_values_are_last() -> None:
    plane, cache = fleet_of(*three())
    assert ids(document(plane, cache, sort="name")) == ["q-behind", "q-failed", "q-new"]
    assert ids(document(plane, cache, sort="-name")) == ["q-failed", "q-behind", "q-new"]
    assert ids(document(plane, cache, sort="-batch_id"))[-1] == "q-new"
    assert ids(document(plane, cache, sort="status")) == ids(document(plane, cache))


def test_rows_have_only_the_wanted_fields() -> None:
    plane, cache = fleet_of(*three())
    rows = document(plane, cache, fields=("name", "status"), limit=1)["queries"]
    assert rows == [{"name": "Orders", "status": "failed"}]


@pytest.mark.parametrize(
    "request_",
    [{"fields": ("nope",)}, {"sort": "labels"}, {"sort": "-nope"}, {"since": "1", "limit": 5}],
)
def test_what_cannot_be_answered_is_a_bad_request(request_: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        FleetRequest(**request_).check()


@pytest.mark.parametrize(
    "cursor", ["", "other-3", "nonsense", "{process}-99999", "{process}-x", "{process}-²"]
)
def test_a_cursor_that_means_nothing_here_gets_the_whole_fleet(cursor: str) -> None:
    plane, cache = fleet_of(*three())
    document(plane, cache)
    found = document(plane, cache, since=cursor.format(process=cache.process))
    assert len(found["queries"]) == 3
    assert "removed" not in found


def test_a_cursor_older_than_the_known_removals_gets_the_whole_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.api.fleet.cache.MAX_REMOVED", 1)
    views = list(three())
    plane = plane_of(SimpleNamespace(fleet=lambda: list(views), views=lambda: list(views)))
    cache = FleetCache(plane)
    cursor = document(plane, cache)["cursor"]
    views.pop(), views.pop()
    document(plane, cache)
    assert "removed" not in document(plane, cache, since=cursor)


def test_a_number_of_more_than_64_bits_is_rendered() -> None:
    large = replace(batches([0] * 3)[-1], batch_id=2**70)
    plane, cache = fleet_of(view(progress=(large,)))
    assert document(plane, cache)["queries"][0]["batch_id"] == 2**70
    assert document(plane, cache, fields=("batch_id",))["queries"] == [{"batch_id": 2**70}]


def test_a_large_body_is_compressed_for_a_client_that_takes_it() -> None:
    large, small = b"x" * answer.MIN_COMPRESSED_BYTES, b"x"
    body, headers = answer.compressed(large, "gzip, br")
    assert (gzip.decompress(body), headers) == (large, {"Content-Encoding": "gzip"})
    assert answer.compressed(large, "br") == (large, {})
    assert answer.compressed(small, "gzip") == (small, {})


def test_the_window_of_a_history_is_a_fleet() -> None:
    plane = plane_of(Window())
    assert document(plane, FleetCache(plane))["queries"] == []
