"""Many restarts by command under constant input: no row is lost or repeated, other queries are not affected."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recording_server import RecordingServer
from tests.spark.deployment import SCHEMA, Feed

pytestmark = [pytest.mark.spark, pytest.mark.long]


class BatchFiles:
    """A sink that is exactly-once because a batch that runs again replaces what it wrote."""

    def __init__(self, directory: Path):
        directory.mkdir()
        self._directory = directory

    def __call__(self, frame: Any, batch: int) -> None:
        rows = [(row.key, row.value) for row in frame.collect()]
        draft = self._directory / f".{batch}"
        draft.write_text(json.dumps(rows))
        draft.rename(self._directory / f"{batch:06d}")

    def rows(self) -> list[tuple[int, str]]:
        files = sorted(self._directory.glob("[0-9]*"))
        assert [int(path.name) for path in files] == list(range(len(files)))
        return sorted((key, value) for path in files for key, value in json.loads(path.read_text()))


@pytest.fixture
def feed(tmp_path: Path) -> Any:
    made, over = Feed(tmp_path / "in"), threading.Event()

    def run() -> None:
        while not over.wait(0.15):
            made.add(5)

    made.add(5)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    made.stop = lambda: (over.set(), thread.join())  # type: ignore[attr-defined]
    yield made
    over.set()


def restart_again_and_again(recorder: RecordingServer, query: Any, times: int) -> None:
    """Plain and draining in turn; some wait for the first batch, others hit a run that has hardly begun."""
    for number in range(times):
        before = query.runId
        result = recorder.command("restart", query.id, timeout=120, drain=number % 2 == 0)
        assert result["state"] == "succeeded", result
        assert query.runId == result["evidence"]["run_id"] != before
        if number % 3:
            recorder.wait_for(lambda: recorder.of_type("progress", runId=query.runId), 300)


def in_threads(*acts: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("times", [15, pytest.param(50, marks=pytest.mark.soak)])
def test_many_restarts_lose_nothing_and_write_nothing_twice(spark, attached, recorder, feed, tmp_path, times):
    def writer(name: str) -> Any:
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 40).json(str(feed.directory))
        made = rows.writeStream.queryName(name).trigger(processingTime="100 milliseconds")
        return made.option("checkpointLocation", str(tmp_path / f"checkpoint-{name}"))

    out, batches, beside = tmp_path / "out", BatchFiles(tmp_path / "batches"), BatchFiles(tmp_path / "beside")
    files = writer("files").format("json").option("path", str(out)).start()
    each = writer("each").foreachBatch(batches).start()
    neighbour = writer("neighbour").foreachBatch(beside).start()
    neighbours_run = neighbour.runId
    in_threads(
        lambda: restart_again_and_again(recorder, files, times),
        lambda: restart_again_and_again(recorder, each, times),
    )
    feed.stop()
    for query in (files, each, neighbour):
        query.processAllAvailable()  # by the handles that the program has had from the beginning
    assert feed.sink_holds_all(spark, out)
    assert batches.rows() == feed.rows and beside.rows() == feed.rows
    assert neighbour.runId == neighbours_run and neighbour.isActive
    output = [p["batchId"] for p in recorder.of_type("progress", id=neighbour.id)]
    assert output == list(range(len(output)))

    def runs() -> dict[str, int]:
        return {
            query.name: len(recorder.of_type("started", id=query.id)) for query in (files, each, neighbour)
        }

    expected = {"files": times + 1, "each": times + 1, "neighbour": 1}
    recorder.wait_for(lambda: runs() == expected)  # a result may overtake the event of the start
