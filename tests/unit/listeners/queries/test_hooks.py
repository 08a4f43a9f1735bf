"""The hooks: observed calls, and errors that are logged once."""

from __future__ import annotations

from types import SimpleNamespace

from listeners.queries import hooks
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
