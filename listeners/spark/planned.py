"""The shape of a query before its start, so that preflight can still refuse the start.

The plan is already analyzed. Sink, mode and trigger come from the Java writer and the arguments of the start.
Called by `listeners.queries.preflight`; `listeners.spark.shape` describes a running query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from listeners.spark.operators import attempt, scala_map
from listeners.spark.shape import allowed_options, build_shape, describe

#: Format → class of the sink. Other sinks, and tables, are unknown before the start.
SINKS = {
    "console": "ConsoleTable",
    "foreach": "ForeachWriterTable",
    "foreachbatch": "ForeachBatchSink",
    "kafka": "KafkaTable",
    "memory": "MemorySink",
    "noop": "NoopTable",
}
#: File format → Spark's name for it.
FILE_FORMATS = {
    "avro": "Avro",
    "csv": "CSV",
    "json": "JSON",
    "orc": "ORC",
    "parquet": "Parquet",
    "text": "Text",
}
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
#: Positional arguments of `start` and `toTable`; every other argument is an option.
ARGUMENTS = {
    "start": ("path", "format", "outputMode", "partitionBy", "queryName"),
    "toTable": ("tableName", "format", "outputMode", "partitionBy", "queryName"),
}


class Planned:
    """The query that a writer would start. It answers like a StreamExecution, as far as that is known."""

    def __init__(self, writer: Any, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]):
        """`writer` is PySpark's; `args` and `kwargs` are those of `method`, which is `start` or `toTable`."""
        names = ARGUMENTS[method]
        given = {**dict(zip(names, args)), **kwargs}
        self.arguments = {name: given.get(name) for name in names}
        more = {name: str(value) for name, value in given.items() if name not in names and value is not None}
        self._method, self._frame, self._java = method, writer._df._jdf, writer._jwrite
        set_before = attempt(lambda: scala_map(_field(self._java, "extraOptions"))) or {}
        self._options = {name.lower(): value for name, value in {**set_before, **more}.items()}
        if self.arguments.get("path") is not None:
            self._options["path"] = str(self.arguments["path"])

    def trigger(self) -> Any:
        """As StreamExecution.trigger()."""
        return _field(self._java, "trigger")

    def outputMode(self) -> Any:
        """As StreamExecution.outputMode()."""
        given_mode = self.arguments["outputMode"]
        return _Text(given_mode) if given_mode else _field(self._java, "outputMode")

    def sparkSession(self) -> Any:
        """As StreamExecution.sparkSession()."""
        return self._frame.sparkSession()

    def sparkSessionForStream(self) -> Any:
        """As StreamExecution.sparkSessionForStream()."""
        return self._frame.sparkSession()

    def analyzedPlan(self) -> Any:
        """As StreamExecution.analyzedPlan()."""
        return self._frame.queryExecution().analyzed()

    def sources(self) -> Any:
        """No sources: they do not exist before the start."""
        return _EmptySequence()

    # -- what StreamExecution does not answer ----------------------------------------------------

    def name(self) -> str | None:
        """The query's name, if it is set."""
        name = self.arguments["queryName"] or self._options.get("queryname")
        return None if name is None else str(name)

    def checkpoint(self) -> str | None:
        """The future checkpoint location, as far as the program sets it."""
        checkpoint_option = self._options.get("checkpointlocation")
        if checkpoint_option is not None or self.name() is None:
            return checkpoint_option
        base_location = self.sparkSession().conf().getOption(CHECKPOINTS)
        return f"{base_location.get()}/{self.name()}" if base_location.isDefined() else None

    def sink(self) -> dict[str, Any] | None:
        """The sink as in the shape of a running query; None if its class is unknown before the start."""
        format = str(self.arguments["format"] or _field(self._java, "source")).lower()
        if self._method == "toTable":
            return None
        if format in FILE_FORMATS and "path" in self._options:
            file_sink = {**describe(f"FileSink[{self._options['path']}]"), "type": "FileStreamSink"}
            return {**file_sink, "format": FILE_FORMATS[format], "options": allowed_options(self._options)}
        if format not in SINKS:
            return None
        return {**describe(SINKS[format]), "type": SINKS[format], "options": allowed_options(self._options)}


def planned_shape(planned: Planned, redact: Callable[[str], str] | None) -> dict[str, Any]:
    """As `listeners.spark.shape.shape_of` of the future run; about a hundred py4j calls."""
    return build_shape(planned, attempt(planned.name), planned.sink, redact)


class _Text:
    def __init__(self, text: Any):
        self._text = str(text)

    def toString(self) -> str:
        return self._text


class _EmptySequence:
    """An empty Scala sequence."""

    def size(self) -> int:
        return 0


def _field(java: Any, name: str) -> Any:
    """A private field of the Java writer; it has no getters."""
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
