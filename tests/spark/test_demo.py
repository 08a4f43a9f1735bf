"""A small `controlplane demo` for real: its figures, three troubles, and that nothing of it is left afterwards."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo import scenarios
from tests.spark.demonstration import FIRST_FIGURES, Demo, expected_pages, expected_statuses

pytestmark = [pytest.mark.spark]

#: The checkpoint is damaged after a few batches of its driver, which starts when the first shows figures.
FEW_TROUBLES = 150


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def begin(*arguments: str) -> Demo:
        started.append(Demo(tmp_path, *arguments))
        return started[-1]

    yield begin
    for demo in started:
        demo.close()


def outcome(demo: Demo, query_id: str, **more: Any) -> dict[str, Any]:
    """A restart, once it has ended one way or the other."""
    ask = {"action": "restart", "reason": "try again", **more}
    asked = demo.call(f"queries/{query_id}/actions", ask)["action"]
    demo.until(lambda: demo.call(f"actions/{asked['id']}")["action"]["finished_at"], 90, demo.queries)
    return dict(demo.call(f"actions/{asked['id']}")["action"])


def test_a_few_troubles_show_what_they_promise_and_ctrl_c_leaves_nothing_behind(
    start: Callable[..., Demo],
) -> None:
    troubles = scenarios.chosen(["steady_copy", "backfill", "damaged_checkpoint"])
    demo = start("--only", *(trouble.name for trouble in troubles))
    demo.until(demo.shows_figures, FIRST_FIGURES, demo.queries)
    demo.until(lambda: demo.statuses() == expected_statuses(troubles), FEW_TROUBLES, demo.statuses)
    demo.until(lambda: demo.pages() == expected_pages(troubles), 30, demo.pages)

    damaged = demo.queries()["balances_damaged"]["query_id"]
    refused = outcome(demo, damaged)
    assert (refused["state"], refused["evidence"]["code"]) == ("refused", "checkpoint_broken")
    action = outcome(demo, damaged, force=True)
    assert action["state"] == "failed"
    assert "CANNOT_LOAD_STATE_STORE" in action["reason"]
    assert "demo-billing ended" not in demo.printed()

    assert demo.left()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(timeout=40) == 0, demo.printed()
    assert demo.left() == []


@pytest.mark.alone
@pytest.mark.long
def test_a_demonstration_of_so_many_minutes_ends_by_itself_and_cleanly(start: Callable[..., Demo]) -> None:
    demo = start("--minutes", "0.7", "--only", "steady_copy")
    assert demo.process.wait(timeout=150) == 0, demo.printed()
    assert "first batches after" in demo.printed()
    assert "had to be killed" not in demo.printed()
    assert demo.left() == []


@pytest.mark.alone
@pytest.mark.long
def test_a_second_demonstration_puts_the_queries_of_the_first_away(start: Callable[..., Demo]) -> None:
    first = start("--only", "steady_copy")
    old = first.until(lambda: first.queries().get("orders_copy"), FIRST_FIGURES, first.queries)
    first.close()
    second = start("--only", "backfill")
    second.until(lambda: "orders_backfill" in second.queries(), FIRST_FIGURES, second.queries)
    assert "orders_copy" not in second.queries()
    retired = second.call("queries?status=retired")["queries"]
    assert [query["query_id"] for query in retired] == [old["query_id"]]


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
