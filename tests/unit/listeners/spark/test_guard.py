"""Tests of `listeners.spark.guard`."""

from __future__ import annotations

import logging

import pytest

from listeners.spark import guard


@pytest.fixture(autouse=True)
def no_warning_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_last_warning", {})


def fail(error: Exception) -> None:
    raise error


def test_repeated_internal_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(50):
            guard.guarded(lambda number=number: fail(ValueError(number)))
        guard.guarded(lambda: fail(KeyError("other")))
    assert [record.getMessage() for record in caplog.records] == [
        "internal error in the control plane's agent, which continues: ValueError(0)",
        "internal error in the control plane's agent, which continues: KeyError('other')",
    ]


def test_refused_start_reaches_the_user() -> None:
    with pytest.raises(guard.StartRefused):
        guard.guarded(lambda: fail(guard.StartRefused("blocked")))
