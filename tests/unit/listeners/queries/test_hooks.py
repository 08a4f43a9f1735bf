"""What goes wrong in a hook is ours, and is not told over and over."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from listeners.queries import hooks
from listeners.queries.registry import Registry


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_last_told", {})


def fail(error: Exception) -> None:
    raise error


def test_an_error_of_ours_is_one_line_however_often_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(50):
            hooks.quietly(lambda number=number: fail(ValueError(number)))
        hooks.quietly(lambda: fail(KeyError("other")))
    assert [record.getMessage() for record in caplog.records] == [
        "the control plane's agent met ValueError(0) and goes on",
        "the control plane's agent met KeyError('other') and goes on",
    ]


def test_what_was_asked_to_be_prevented_reaches_the_user() -> None:
    with pytest.raises(hooks.Refused):
        hooks.quietly(lambda: fail(hooks.Refused("blocked")))


class Context:
    """A SparkContext; `_jsc` is gone once it has stopped."""

    def __init__(self) -> None:
        self._jsc: object | None = object()

    def stop(self) -> None:
        self._jsc = None


def test_the_stop_of_a_context_is_heard_once_and_before_it_is_done() -> None:
    context, heard = Context(), []
    hearer = SimpleNamespace(context_stopping=lambda: heard.append(context._jsc))
    made = hooks.Hooks(Registry(), hearer)  # type: ignore[arg-type]
    made.wrap(SimpleNamespace(classes=lambda: {"context": Context}))  # type: ignore[arg-type]
    try:
        context.stop()
        context.stop()
    finally:
        made.undo()
    assert len(heard) == 1 and heard[0] is not None and context._jsc is None
