"""A `cached_property` without a lock, for objects that several threads read.

In Python 3.11 that of functools computes under a lock that all objects of a class share: while one thread judges a
query, others that judge other queries wait for it, although they never read the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property  # noqa: PLC0414
else:

    class cached_property:
        """An attribute that is computed when it is first read. Threads that read it at once may compute it twice."""

        def __init__(self, compute: Callable[[Any], Any]):
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value
