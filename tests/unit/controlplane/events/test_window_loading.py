"""A window is completed in steps that end in time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from controlplane.events import window_loading
from controlplane.events.window import Window
from controlplane.events.window_loading import complete_window
from tests.drivers import Driver, report
from tests.stores import StoreHarness, sqlite_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def test_steps_are_taken_until_the_time_is_over(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_loading, "STEP_QUERIES", 1)
    monkeypatch.setattr(window_loading, "COMPLETE_SECONDS", 2.5)
    driver, window = Driver(), Window()
    for batch in range(3):
        lines = [driver.line("progress", report(query, f"of {query}", batch)) for query in "abcde"]
        harness.accept(*lines)
    harness.read(window.load, 1)

    @contextlib.contextmanager
    def reading() -> Iterator[object]:
        with harness.engine.connect() as connection:
            yield connection

    seconds = count()
    assert complete_window(window, reading, lambda: float(next(seconds)))  # type: ignore[arg-type]
    assert [window.is_complete(query) for query in "abcde"].count(True) == 3
    assert not complete_window(window, reading)  # type: ignore[arg-type]
    assert not window.loading
    assert sorted(window.views(), key=str) == sorted(harness.reloaded().views(), key=str)
    assert not complete_window(window, None)  # type: ignore[arg-type]
