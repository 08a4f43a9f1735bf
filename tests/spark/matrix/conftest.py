"""Fixtures of the matrix: the agent's zip, and one shared driver for each Spark version."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from listeners.packaging import write_zip
from tests.recording_server import RecordingServer
from tests.spark.matrix.sparks import SESSION, VERSIONS, Console, environment, interpreter

#: An old Spark on a busy machine takes its time to start a session, and a first batch.
TIMEOUT_SECONDS = 240.0


class PatientServer(RecordingServer):
    def wait_for(self, condition: Callable[[], Any], timeout: float = TIMEOUT_SECONDS) -> Any:
        return super().wait_for(condition, timeout)

    def command(
        self, action: str, query_id: str, timeout: float = TIMEOUT_SECONDS, **fields: Any
    ) -> dict[str, Any]:
        return super().command(action, query_id, timeout, **fields)


@contextmanager
def patient_server() -> Iterator[PatientServer]:
    server = PatientServer()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def recorder() -> Iterator[PatientServer]:
    with patient_server() as server:
        yield server


@pytest.fixture(scope="session")
def agent_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_zip(str(tmp_path_factory.mktemp("agent") / "agent.zip")))


@dataclass
class Guest:
    """A driver on one Spark, with the agent that its `sitecustomize` attached."""

    version: str
    driver: Console
    recorder: RecordingServer
    directory: Path

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))

    def feed(self, name: str, count: int = 3) -> None:
        """More rows for the query `name`."""
        place = self.directory / "in" / name
        place.mkdir(parents=True, exist_ok=True)
        first = 3 * len(list(place.glob("*.json")))
        rows = [json.dumps({"key": key, "value": f"v{key}"}) for key in range(first, first + count)]
        (place / ".new").write_text("\n".join(rows))
        (place / ".new").rename(place / f"{first:06d}.json")

    def start(self, name: str, extra: str = "") -> dict[str, str]:
        """Start a query that copies files; `id` and `runId` of it. The driver knows it as `queries[name]`."""
        self.feed(name)
        paths = {part: str(self.directory / part / name) for part in ("in", "out", "checkpoint")}
        return self.driver.do(
            f"""
            queries = globals().setdefault("queries", {{}})
            read = spark.readStream.schema("key INT, value STRING").json({paths["in"]!r})
            writer = (read.writeStream.format("json").queryName({name!r}).option("path", {paths["out"]!r})
                      .option("checkpointLocation", {paths["checkpoint"]!r}){extra})
            queries[{name!r}] = query = writer.start()
            answer = {{"id": str(query.id), "runId": str(query.runId)}}
            """
        )

    def batches(self, run_id: str) -> list[int]:
        return [report["batchId"] for report in self.recorder.of_type("progress", runId=run_id)]

    def wait_for_batch(self, run_id: str, batch: int = 0) -> None:
        self.recorder.wait_for(lambda: batch in self.batches(run_id))

    def reported(self, query_id: str, part: str) -> Any:
        """`facts` or `shape` of a query, as its first status has it."""
        return self.recorder.wait_for(
            lambda: [
                q
                for s in self.recorder.of_type("status")
                for q in s["queries"]
                if q["id"] == query_id and q.get(part)
            ]
        )[0][part]

    def rows(self, name: str) -> list[int]:
        out = str(self.directory / "out" / name)
        return self.driver.tell(
            f"sorted(r.key for r in spark.read.schema('key INT').json({out!r}).collect())"
        )


@pytest.fixture(scope="module", params=VERSIONS)
def guest(
    request: pytest.FixtureRequest, agent_zip: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guest]:
    python = interpreter(request.param)
    directory = tmp_path_factory.mktemp("guest")
    with patient_server() as recorder:
        driver = Console(directory, python, environment(python, recorder.url, directory, agent_zip))
        try:
            driver.do(SESSION)
            yield Guest(request.param, driver, recorder, directory)
        finally:
            driver.close()
