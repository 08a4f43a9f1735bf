"""`controlplane demo` for real: every trouble, the actions on a damaged checkpoint, and both ways to end.

The long tests share one demonstration, in their order: the last but one ends it with Ctrl-C, the last runs
a second one over the data directory of the first.
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

#: The state must have grown for three minutes; the last driver starts within the first.
ALL_TROUBLES = 330
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
    demo.until(lambda: demo.call(path)["action"]["finished_at"], 90, demo.queries)
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
    statuses, pages = expected_statuses(TROUBLES), expected_pages(TROUBLES)

    def missing() -> dict[str, object]:
        shown, paging = demo.statuses(), demo.pages()
        found: dict[str, object] = {
            name: (shown.get(name), status) for name, status in statuses.items() if shown.get(name) != status
        }
        return found | {
            name: (paging.get(name), pages.get(name))
            for name in pages.keys() | paging.keys()
            if paging.get(name) != pages.get(name)
        }

    demo.until(lambda: not missing(), ALL_TROUBLES, missing)


@pytest.mark.alone
@pytest.mark.long
def test_no_healthy_query_had_an_alert_at_any_time(demo: Demo) -> None:
    episodes = demo.call("alerts/history?limit=1000")["alerts"]
    assert {episode["name"] for episode in episodes} >= {"CrashLoop", "StateGrowthWithoutEviction"}
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
def test_ctrl_c_ends_a_demonstration_and_a_second_one_retires_its_queries_and_ends_by_itself(
    demo: Demo, start: Callable[..., Demo]
) -> None:
    old = {query["query_id"] for query in demo.queries().values()}
    assert demo.left()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(timeout=40) == 0, demo.printed()
    assert demo.left() == []

    second = start("--minutes", "0.7", "--only", "backfill")
    second.until(lambda: set(second.queries()) == {"orders_backfill"}, FIRST_FIGURES, second.queries)
    assert second.queries()["orders_backfill"]["query_id"] not in old
    assert {query["query_id"] for query in second.call("queries?status=retired")["queries"]} == old
    assert second.process.wait(timeout=150) == 0, second.printed()
    assert "first batches after" in second.printed()
    assert "had to be killed" not in second.printed()
    assert second.left() == []
