"""Choose the engine for a session: classic (py4j) or Spark Connect (gRPC).

Apart from `listeners.spark.engine`, so that the engines can import the interface and this module the engines.
"""

from __future__ import annotations

from typing import Any

from listeners.protocol.errors import AgentError
from listeners.spark.engine import Engine


def engine_of(session: Any) -> Engine:
    """The engine for a session; AgentError if `session` is not a SparkSession."""
    if getattr(session, "_jsparkSession", None) is not None:
        from listeners.spark import classic

        return classic.ENGINE
    if type(session).__module__.startswith("pyspark.sql.connect"):
        from listeners.spark.connect import session as connect  # type: ignore[attr-defined,unused-ignore]

        return connect.ENGINE  # type: ignore[no-any-return,unused-ignore]
    raise AgentError(
        f"{type(session).__name__} is not a SparkSession; call attach(spark) after getOrCreate()"
    )
