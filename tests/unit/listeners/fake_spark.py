"""Fakes of PySpark's objects, for tests of registry, waits and commands without a JVM."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

from listeners.spark.classic import ClassicEngine, ClassicRun


class Text:
    def __init__(self, text: str):
        self._text = text

    def toString(self) -> str:
        return self._text


class JavaQuery:
    """A Java query: runs until stopped or failed; `awaitTermination` blocks as in Spark."""

    def __init__(self, query_id: str, run_id: str, name: str | None = None, checkpoint: str = "file:/ck"):
        self._ids, self._name, self._checkpoint = (query_id, run_id), name, checkpoint
        self._over = threading.Event()
        self.failure: Exception | None = None
        self.trigger_active = False
        self.stop_error: Exception | None = None
        self._stopping = False
        #: Its batch cannot be interrupted: a stop begins and does not end.
        self.hangs = False
        self.facts: dict[str, Any] = {"trigger": "processing_time", "triggerInterval": 2.0}
        self.planned: int | None = None
        self.committed: int | None = None

    def id(self) -> Text:
        return Text(self._ids[0])

    def runId(self) -> Text:
        return Text(self._ids[1])

    def name(self) -> str | None:
        return self._name

    def isActive(self) -> bool:
        return not self._stopping and not self._over.is_set()  # Spark answers False as soon as a stop begins

    def stop(self) -> None:
        if self.stop_error:
            raise self.stop_error
        self._stopping = True
        if self.hangs:
            self._over.wait()
        self._over.set()

    def fail(self, error: Exception) -> None:
        self.failure = error
        self._over.set()

    def wait(self) -> None:
        assert self._over.wait(20), "nobody ended the query"
        if self.failure:
            raise self.failure

    def status(self) -> Any:
        document = {"message": "m", "isDataAvailable": False, "isTriggerActive": self.trigger_active}
        return SimpleNamespace(json=lambda: json.dumps(document))

    def streamingQuery(self) -> Any:
        thread = SimpleNamespace(isAlive=lambda: not self._over.is_set())
        return SimpleNamespace(
            resolvedCheckpointRoot=lambda: self._checkpoint, queryExecutionThread=lambda: thread
        )


class Query:
    """PySpark's query handle."""

    def __init__(self, jsq: JavaQuery):
        self._jsq = jsq

    def stop(self) -> None:
        self._jsq.stop()


class Session:
    """`key` is that of its StreamingQueryManager."""

    def __init__(self, key: int = 1) -> None:
        streams = SimpleNamespace(key=key)
        self._jsparkSession = SimpleNamespace(streams=lambda: streams)
        #: The pools with which threads activated it.
        self.entered: list[str | None] = []


class Plan:
    def __init__(self, *leaves: tuple[str, bool]):
        self._leaves = leaves

    def subqueriesAll(self) -> Any:
        return Sequence([])

    def collectLeaves(self) -> Any:
        return Sequence([Leaf(name, streaming) for name, streaming in self._leaves])


class Leaf:
    source = "rate"

    def __init__(self, name: str, streaming: bool):
        self._name, self._streaming = name, streaming

    def getClass(self) -> Any:
        return SimpleNamespace(getSimpleName=lambda: self._name)

    def isStreaming(self) -> bool:
        return self._streaming

    def sourceName(self) -> str:
        return self.source


class Sequence:
    def __init__(self, items: list[Any]):
        self._items = items

    def size(self) -> int:
        return len(self._items)

    def apply(self, index: int) -> Any:
        return self._items[index]


class Writer:
    """A DataStreamWriter; `plan` holds its leaves."""

    def __init__(self, *leaves: tuple[str, bool]):
        plan = Plan(*(leaves or (("StreamingRelationV2", True),)))
        execution = SimpleNamespace(analyzed=lambda: plan)
        #: The trigger intervals set on it.
        self.triggers: list[str] = []
        self._df = SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))

    def trigger(self, *, processingTime: str) -> Writer:
        self.triggers.append(processingTime)
        return self


def await_on_jvm(query: Query) -> None:
    """As PySpark's own awaitTermination."""
    query._jsq.wait()


class FakeRun(ClassicRun):
    def failure(self) -> Exception | None:
        return self.jsq.failure

    def facts(self) -> dict[str, Any]:
        return self.jsq.facts

    def batches_on_record(self) -> tuple[int | None, int | None]:
        return self.jsq.planned, self.jsq.committed


class FakeEngine(ClassicEngine):
    """The classic engine; the fakes answer what only a JVM can."""

    def key(self, session: Any) -> int:
        return session._jsparkSession.streams().key

    def key_of(self, manager: Any) -> int:
        return manager.key

    def run(self, query: Any, start: Any = None) -> FakeRun:
        return FakeRun(query._jsq)

    def pool(self, session: Any) -> str | None:
        return None

    def activate(self, session: Any, pool: str | None) -> None:
        session.entered.append(pool)


ENGINE = FakeEngine()
