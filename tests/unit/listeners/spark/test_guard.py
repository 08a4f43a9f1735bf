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


def test_an_error_of_ours_is_one_line_however_often_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(50):
            guard.guarded(lambda number=number: fail(ValueError(number)))
        guard.guarded(lambda: fail(KeyError("other")))
    assert [record.getMessage() for record in caplog.records] == [
        "the control plane's agent met ValueError(0) and goes on",
        "the control plane's agent met KeyError('other') and goes on",
    ]


def test_what_was_asked_to_be_prevented_reaches_the_user() -> None:
    with pytest.raises(guard.StartRefused):
        guard.guarded(lambda: fail(guard.StartRefused("blocked")))
