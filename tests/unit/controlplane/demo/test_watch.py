"""When the demonstration prints what."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.demo import scenarios
from controlplane.demo.interrupts import Interrupts
from controlplane.demo.launch import Options
from controlplane.demo.processes import Child
from controlplane.demo.watch import Watch, watch

QUERY = {
    "name": "clicks_slow",
    "app": "demo-clicks",
    "status": "starting",
    "batch_id": None,
    "reason": "",
    "last_event_at": "1970-01-01T00:20:00Z",
}


@pytest.fixture
def printed() -> list[str]:
    return []


@pytest.fixture
def view(printed: list[str], tmp_path: Path) -> Watch:
    return Watch(Options(tmp_path, 1, 2, scenarios.TROUBLES), printed.append, since=1000.0)


def answer(**changed: Any) -> dict[str, Any]:
    return {"queries": [{**QUERY, **changed}]}


def test_while_it_waits_it_prints_a_line_every_five_seconds(view: Watch, printed: list[str]) -> None:
    for now in (0.5, 1.0, 3.0, 5.6):
        view.tick(now, {})
    assert len(printed) == 2
    assert all("starting" in line for line in printed)


def test_the_first_figures_are_announced_once_with_the_address_to_open(
    view: Watch, printed: list[str]
) -> None:
    view.tick(0.5, {})
    view.tick(7.0, answer(batch_id=0))
    assert "first batches after 7 s. Open http://127.0.0.1:2" in printed[1]
    assert "clicks_slow" in printed[2]
    view.tick(8.0, answer(batch_id=1))
    assert len(printed) == 3


def test_what_an_earlier_demonstration_left_in_the_store_is_no_figure(
    view: Watch, printed: list[str]
) -> None:
    view.tick(0.5, answer(batch_id=40, last_event_at="1970-01-01T00:10:00Z"))
    assert len(printed) == 1
    assert "Spark is starting" in printed[0]


def test_then_the_table_comes_every_fifteen_seconds(view: Watch, printed: list[str]) -> None:
    view.tick(0.5, answer(batch_id=0))
    assert not view.is_due(15.0)
    assert view.is_due(15.6)
    view.tick(15.6, answer(batch_id=7))
    assert "batch 7" in printed[-1]


def test_a_server_that_does_not_answer_once_is_asked_again_without_a_word(
    view: Watch, printed: list[str]
) -> None:
    view.tick(0.5, answer(batch_id=0))
    before = len(printed)
    view.tick(16.0, {})
    assert len(printed) == before
    assert view.is_due(16.5)


def test_a_driver_is_live_once_a_batch_of_this_demonstration_was_reported(view: Watch) -> None:
    assert view.live_apps(answer()) == set()
    assert view.live_apps(answer(batch_id=4, last_event_at="1970-01-01T00:10:00Z")) == set()
    assert view.live_apps(answer(batch_id=0)) == {"demo-clicks"}


def test_a_child_that_ended_is_reported_once_with_its_log(view: Watch, printed: list[str]) -> None:
    children = [
        cast(Child, SimpleNamespace(name="server", exit_code=None, log=Path("server.log"))),
        cast(Child, SimpleNamespace(name="demo-orders", exit_code=1, log=Path("demo-orders.log"))),
    ]
    assert view.report_ended(children) == view.report_ended(children) == {"demo-orders"}
    assert printed == ["demo: demo-orders ended with exit code 1; see demo-orders.log"]


def test_it_ends_by_itself_after_the_given_minutes(printed: list[str], tmp_path: Path) -> None:
    options = Options(tmp_path, 1, 2, (), minutes=0.005)
    options.admin_token.parent.mkdir(exist_ok=True)
    options.admin_token.write_text("secret")
    assert watch(options, [], cast(Any, None), Interrupts(), printed.append) == 0
    assert printed[-1] == "demo: stopping after 0.005 minutes"
