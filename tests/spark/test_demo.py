"""`controlplane demo` for real: every trouble, the actions on a damaged checkpoint, and the end by Ctrl-C.

The long tests share one demonstration, in their order: the last ends it, and runs a second one over its data directory.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo.scenarios import TROUBLES
from tests.spark.demonstration import FIRST_FIGURES, Demo, expected_pages, expected_statuses

pytestmark = [pytest.mark.spark]

#: It takes two minutes here, and the growing state three and a half.
ALL_TROUBLES = 900
#: Its state must have grown for three minutes: a soak test waits for that.
GROWING = "visits_growing"
HEALTHY = {trouble.query for trouble in TROUBLES if trouble.is_healthy}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Demo]]:
    """Start a demonstration; all have the same data directory."""
    folder, started = tmp_path_factory.mktemp("demo"), list[Demo]()

    def begin(*arguments: str) -> Demo:
        started.append(Demo(folder, *arguments))
        return started[-1]

    yield begin
    for demo in started:
        demo.close()


@pytest.fixture(scope="module")
def demo(start: Callable[..., Demo]) -> Demo:
    """A demonstration of all troubles that shows its first figures."""
    whole = start()
    whole.until(whole.shows_figures, FIRST_FIGURES, whole.queries)
    return whole


def outcome(demo: Demo, query_id: str, **more: Any) -> dict[str, Any]:
    """Request a restart and wait for its final state."""
    request = {"action": "restart", "reason": "try again", **more}
    path = f"actions/{demo.call(f'queries/{query_id}/actions', request)['action']['id']}"
    demo.until(lambda: demo.call(path)["action"]["finished_at"], FIRST_FIGURES, demo.queries)
    return dict(demo.call(path)["action"])


def test_a_port_in_use_is_one_clear_line_and_exit_code_two(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "controlplane.cli.main", "demo", "--port", port]
        answer = subprocess.run(
            [*command, "--data-dir", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
        )
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    assert f"port {port} is in use" in answer.stderr


@pytest.mark.alone
@pytest.mark.long
def test_each_trouble_shows_its_status_and_pages_with_its_alert_at_the_same_time(demo: Demo) -> None:
    demo.until(lambda: not missing(demo, {GROWING}), ALL_TROUBLES, lambda: missing(demo, {GROWING}))


@pytest.mark.soak
def test_growing_state_pages_too_at_the_same_time(demo: Demo) -> None:
    demo.until(lambda: not missing(demo, set()), ALL_TROUBLES, lambda: missing(demo, set()))


def missing(demo: Demo, pages_later: set[str]) -> dict[str, object]:
    """What differs from the table of troubles, shown and expected; of `pages_later` the pages are not compared."""
    statuses, found = expected_statuses(TROUBLES), dict[str, object]()
    for shown, expected in (
        ({name: status for name, status in demo.statuses().items() if name in statuses}, statuses),
        (without(demo.pages(), pages_later), without(expected_pages(TROUBLES), pages_later)),
    ):
        names = shown.keys() | expected.keys()
        found |= {n: (shown.get(n), expected.get(n)) for n in names if shown.get(n) != expected.get(n)}
    return found


def without(pages: dict[str, set[str]], names: set[str]) -> dict[str, set[str]]:
    return {name: alerts for name, alerts in pages.items() if name not in names}


@pytest.mark.alone
@pytest.mark.long
def test_no_healthy_query_had_an_alert_at_any_time(demo: Demo) -> None:
    episodes = demo.call("alerts/history?limit=1000")["alerts"]
    assert {episode["name"] for episode in episodes} >= {"CrashLoop", "LagGrowing"}
    assert [(episode["query"], episode["name"]) for episode in episodes if episode["query"] in HEALTHY] == []


@pytest.mark.alone
@pytest.mark.long
def test_a_restart_from_a_damaged_checkpoint_is_refused_and_fails_when_forced(demo: Demo) -> None:
    damaged = demo.queries()["balances_damaged"]["query_id"]
    refused = outcome(demo, damaged)
    assert (refused["state"], refused["evidence"]["code"]) == ("refused", "checkpoint_broken")
    action = outcome(demo, damaged, force=True)
    assert action["state"] == "failed"
    assert "CANNOT_LOAD_STATE_STORE" in action["reason"]
    assert "demo-billing ended" not in demo.printed()


@pytest.mark.alone
@pytest.mark.long
def test_ctrl_c_ends_a_demonstration_and_a_second_one_retires_its_queries(
    demo: Demo, start: Callable[..., Demo]
) -> None:
    old = {query["query_id"] for query in demo.queries().values()}
    assert demo.left()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(timeout=FIRST_FIGURES) == 0, demo.printed()
    assert demo.left() == []

    second = start("--only", "backfill")

    def backfill_alone() -> bool:
        queries = second.queries()  # the old query of this name may be the last one to be retired
        return set(queries) == {"orders_backfill"} and queries["orders_backfill"]["query_id"] not in old

    second.until(backfill_alone, FIRST_FIGURES, second.queries)
    assert {query["query_id"] for query in second.call("queries?status=retired")["queries"]} == old
    second.until(lambda: "first batches after" in second.printed(), FIRST_FIGURES, second.queries)
    second.process.send_signal(signal.SIGINT)
    assert second.process.wait(timeout=FIRST_FIGURES) == 0, second.printed()
    assert "had to be killed" not in second.printed()
    assert second.left() == []
