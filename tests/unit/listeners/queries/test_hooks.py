"""What goes wrong in a hook is ours, and is not told over and over."""

from __future__ import annotations

from types import SimpleNamespace

from listeners.queries import hooks
from listeners.queries.registry import Registry


class Context:
    """A SparkContext; `_jsc` is gone once it has stopped."""

    def __init__(self) -> None:
        self._jsc: object | None = object()

    def stop(self) -> None:
        self._jsc = None


def test_the_stop_of_a_context_is_heard_once_and_before_it_is_done() -> None:
    context, heard = Context(), []
    observer = SimpleNamespace(context_stopping=lambda: heard.append(context._jsc))
    made = hooks.Hooks(Registry(), observer)  # type: ignore[arg-type]
    made.wrap(SimpleNamespace(classes=lambda: {"context": Context}))  # type: ignore[arg-type]
    try:
        context.stop()
        context.stop()
    finally:
        made.undo()
    assert len(heard) == 1 and heard[0] is not None and context._jsc is None
