"""The hooks: observed calls, and errors that are logged once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from listeners.queries import hooks
from listeners.queries.preflight import QueryNotStarted
from listeners.queries.registry import Registry


class Context:
    """A SparkContext; `_jsc` is None once it has stopped."""

    def __init__(self) -> None:
        self._jsc: object | None = object()

    def stop(self) -> None:
        self._jsc = None


def test_context_stop_is_observed_once_and_before_it_runs() -> None:
    context, observed = Context(), []
    observer = SimpleNamespace(context_stopping=lambda: observed.append(context._jsc))
    made = hooks.Hooks(Registry(), observer)  # type: ignore[arg-type]
    made.wrap(SimpleNamespace(classes=lambda: {"context": Context}))  # type: ignore[arg-type]
    try:
        context.stop()
        context.stop()
    finally:
        made.undo()
    assert len(observed) == 1 and observed[0] is not None and context._jsc is None


class Writer:
    """A DataStreamWriter whose start fails."""

    def start(self) -> None:
        raise ValueError("no such sink")

    def toTable(self) -> None: ...


@pytest.mark.parametrize("refusal", [QueryNotStarted("the keys were changed"), None])
def test_a_start_that_failed_or_was_refused_is_reported_and_raised(refusal: Exception | None) -> None:
    reported: list[tuple[str | None, str, str]] = []

    def before_start(*_: Any) -> None:
        if refusal is not None:
            raise refusal

    observer = SimpleNamespace(
        add_session=lambda _: None,
        before_start=before_start,
        start_failed=lambda name, method, error: reported.append((name, method, str(error))),
    )
    engine = SimpleNamespace(classes=lambda: {"writer": Writer}, session_of=lambda _: None)
    made = hooks.Hooks(Registry(), observer)  # type: ignore[arg-type]
    made.wrap(engine)  # type: ignore[arg-type]
    message = "no such sink" if refusal is None else "the keys were changed"
    try:
        with pytest.raises((ValueError, QueryNotStarted), match=message):
            Writer().start()
    finally:
        made.undo()
    assert reported == [(None, "start", message)]
