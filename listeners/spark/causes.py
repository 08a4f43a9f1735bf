"""The error condition and the full text of an exception that PySpark raised."""

from __future__ import annotations

from typing import Any


def error_class_of(error: BaseException) -> str | None:
    """Spark's error condition of a Python-side exception (`getCondition` in 4.x, `getErrorClass` in 3.x)."""
    for name in ("getCondition", "getErrorClass"):
        method = getattr(error, name, None)
        if callable(method):
            found = _try(method)
            if found:
                return str(found)
    return None


def text_of(error: BaseException) -> str:
    """An exception's full text: Java's stack traces where there are any, else Python's text."""
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    stack = None
    if origin is not None:
        stack = _try(lambda: _java_stack(origin))
    return str(stack or getattr(error, "_stackTrace", None) or f"{type(error).__name__}: {error}")


def _java_stack(throwable: Any) -> str:
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    return str(jvm.org.apache.spark.util.Utils.exceptionString(throwable))  # type: ignore[union-attr]


def _try(method: Any) -> Any:
    try:
        return method()
    except Exception:
        return None
