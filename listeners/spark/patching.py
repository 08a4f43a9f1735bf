"""Wrap methods of PySpark's classes and restore them.

A wrapper has the signature `wrapper(original, self, *args, **kwargs)`. If another library has wrapped the
same method later, its wrapper stays, and the agent's wrapper inside it only passes calls through (`retired`).
"""

from __future__ import annotations

import functools
from typing import Any, Callable

Wrapper = Callable[..., Any]


class Patches:
    """The wrapped methods of one agent."""

    def __init__(self) -> None:
        self._made: list[tuple[type, str, Any, Any]] = []
        self.retired = False

    def wrap(self, owner: type, name: str, wrapper: Wrapper) -> None:
        """Replace `owner.name`; does nothing if this Spark lacks the method."""
        original = owner.__dict__.get(name)
        if original is None or not callable(original):
            return

        @functools.wraps(original)
        def method(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if self.retired:
                return original(self_, *args, **kwargs)
            return wrapper(original, self_, *args, **kwargs)

        setattr(owner, name, method)
        self._made.append((owner, name, original, method))

    def undo(self) -> None:
        """Restore the original methods, except where another library has wrapped them again."""
        self.retired = True
        for owner, name, original, method in reversed(self._made):
            if owner.__dict__.get(name) is method:
                setattr(owner, name, original)
        self._made.clear()
