"""Inventories: one at a time, within their deadline, and with a reason if none is taken."""

import json
import threading

import pytest

from listeners.checkpoints import timetable
from listeners.checkpoints.collection import MAX_EVENT_BYTES, fit_to_line
from listeners.checkpoints.inventories import Inventories, checked_mode
from listeners.checkpoints.inventory_reader import Bounds
from listeners.protocol.wire import Command
from listeners.queries.registry import Registry
from listeners.spark.engine import Start
from tests.unit.listeners.fake_spark import ENGINE, JavaQuery, Query, Session, Writer
from tests.unit.listeners.local_files import LocalFiles, write_batch, write_checkpoint


class Driver:
    """One query with a checkpoint on disk, and the events it emits."""

    def __init__(self, root, **more):
        self.root, self.out = root, []
        self.came = threading.Event()
        self.registry = Registry()
        self.session = Session()
        self.session.version = "4.3.0"
        self.entry = self.start("q", "r1", f"file:{root}")
        self.files = LocalFiles(root)
        self.inventories = Inventories(
            self.registry, self.put, open_files=lambda session, location: self.files, **more
        )

    def start(self, query_id, run_id, checkpoint):
        writer = Writer()
        engine = ENGINE
        start = Start("start", None, writer, (), {}, self.session, self.registry.touch(writer), engine)
        query = Query(JavaQuery(query_id, run_id, "orders", checkpoint))
        return self.registry.started(query, start, self.session, engine)

    def put(self, type, data):
        self.out.append((type, json.loads(data)))
        self.came.set()

    def ask(self, query_id="q", seconds=20.0):
        return self.inventories.on_command(Command("c", "inventory", query_id, timeout_seconds=seconds))


@pytest.fixture
def driver(tmp_path):
    write_checkpoint(tmp_path)
    made = Driver(tmp_path)
    yield made
    made.inventories.close()


def test_command_emits_event_and_returns_files_and_seconds(driver):
    result = driver.ask()
    (type, data) = driver.out[0]
    assert (result.state, type, data["why"], data["id"], data["runId"]) == (
        "succeeded",
        "inventory",
        "asked",
        "q",
        "r1",
    )
    assert result.evidence["files"] == len(data["inventory"]["files"]) == data["files"]
    assert result.evidence["seconds"] == data["seconds"]
    assert (data["name"], data["sparkVersion"], data["output"]) == ("orders", "4.3.0", None)


def test_first_progress_triggers_inventory(driver):
    driver.inventories.started(driver.entry)
    driver.inventories.on_event("progress", "r1", "{}")
    assert driver.came.wait(20)
    assert driver.out[0][1]["why"] == "started"


def test_logs_of_a_running_query_are_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(timetable, "LOGS_SECONDS", 0.0)
    write_checkpoint(tmp_path)
    driver = Driver(tmp_path)
    try:
        driver.inventories.started(driver.entry)
        driver.inventories.on_event("progress", "r1", "{}")
        assert driver.came.wait(20) and driver.came.clear() is None
        write_batch(tmp_path, 3)
        (tmp_path / "commits/3").unlink()
        driver.files.calls.clear()
        while not driver.came.wait(0.05):  # the worker has to record the first inventory before
            driver.inventories.on_event("progress", "r1", "{}")
        type, data = driver.out[1]
        assert (type, data["id"], data["runId"]) == ("checkpoint_logs", "q", "r1")
        assert (data["planned"], data["committed"]) == (3, 2)
        assert driver.files.calls == ["commits", "offsets"], "nothing else is read"
    finally:
        driver.inventories.close()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ('{"runId":"r1","exception":"boom"}', "failed"),
        ('{"runId":"r1","exception":null}', "stopped"),
        ('{"runId":"r1"}', "stopped"),
        ('{"runId": "r1", "exception": "as Spark 3.4 is told"}', "failed"),
    ],
)
def test_end_triggers_inventory_with_its_reason(driver, data, reason):
    driver.inventories.on_event("terminated", "r1", data)
    assert driver.came.wait(20)
    assert driver.out[0][1]["why"] == reason


def test_refused_start_is_inventoried_as_failure(driver):
    driver.inventories.start_failed(driver.entry)
    assert driver.came.wait(20)
    assert driver.out[0][1]["why"] == "failed"


def test_events_of_unknown_runs_are_ignored(driver):
    driver.inventories.on_event("terminated", "somebody else's", "{}")
    driver.inventories.on_event("progress", "r1", "{}")
    assert driver.ask().state == "succeeded"
    assert [data["why"] for _, data in driver.out] == ["asked"]


def test_refusal_has_a_reason_and_is_counted(driver):
    driver.start("temporary", "r2", "file:/tmp/temporary-1234")
    driver.start("unknown", "r3", None)
    for query_id, code in (
        ("gone", "unknown_query"),
        ("temporary", "temporary_checkpoint"),
        ("unknown", "unknown_checkpoint"),
    ):
        result = driver.ask(query_id)
        assert (result.state, result.code) == ("refused", code)
    driver.session._jsparkSession = None
    assert driver.ask().code == "unsupported_session"
    assert sum(driver.inventories.skipped().values()) == 4 and driver.out == []


def test_no_inventory_when_switched_off(tmp_path):
    driver = Driver(tmp_path, mode="off")
    driver.inventories.started(driver.entry)
    driver.inventories.on_event("terminated", "r1", "{}")
    assert driver.ask().code == "inventory_off"
    assert driver.files.calls == []


def test_mode_logs_sends_no_state_rows(tmp_path):
    write_checkpoint(tmp_path)
    driver = Driver(tmp_path, mode="logs")
    assert driver.ask().state == "succeeded"
    assert not any(path.endswith(".delta") for path in driver.out[0][1]["inventory"]["contents"])


def test_hanging_file_system_keeps_what_was_read(tmp_path):
    write_checkpoint(tmp_path)
    driver, free = Driver(tmp_path, bounds=Bounds(seconds=0.1)), threading.Event()
    driver.files.meanwhile = {"state/0": lambda: free.wait(60)}
    try:
        assert driver.ask().state == "succeeded"
        inventory = driver.out[0][1]["inventory"]
        assert inventory["complete"] is False and [p for p, *_ in inventory["files"] if p == "commits/2"] == [
            "commits/2"
        ]
        refused = driver.ask()
        assert (refused.code, "has not answered" in refused.reason) == ("busy", True)
    finally:
        free.set()


def test_command_returns_partial_inventory_within_its_timeout(tmp_path):
    write_checkpoint(tmp_path)
    driver, free = Driver(tmp_path, bounds=Bounds(seconds=3600)), threading.Event()
    driver.files.meanwhile = {"state/0": lambda: free.wait(60)}
    try:
        assert driver.ask(seconds=0.5).state == "succeeded"
        inventory = driver.out[0][1]["inventory"]
        assert inventory["complete"] is False and "commits/2" in [path for path, *_ in inventory["files"]]
    finally:
        free.set()


def test_waiting_for_another_inventory_uses_up_the_timeout(tmp_path):
    write_checkpoint(tmp_path)
    driver, free = Driver(tmp_path, bounds=Bounds(seconds=3600)), threading.Event()
    driver.files.meanwhile = {"state/0": lambda: free.wait(60)}
    driver.inventories._collecting.acquire()
    threading.Timer(0.05, driver.inventories._collecting.release).start()
    try:
        assert driver.ask(seconds=1.0).state == "succeeded"
        assert driver.out[0][1]["inventory"]["complete"] is False
    finally:
        free.set()


def test_unavailable_file_system_fails_the_command_in_one_line(tmp_path):
    driver = Driver(tmp_path)

    def refuse(session, location):
        raise OSError("no such bucket")

    driver.inventories._open = refuse
    result = driver.ask()
    assert (result.state, result.code) == ("failed", "agent_error")
    assert "no such bucket" in result.reason and driver.out == []


def test_nothing_is_taken_after_close(driver):
    driver.inventories.close()
    driver.inventories.on_event("terminated", "r1", "{}")
    assert driver.ask().code == "closed"
    assert driver.out == []


def test_oversized_inventory_drops_contents_then_names():
    def document(files, contents):
        return {
            "output": None,
            "inventory": {
                "files": files,
                "folders": [],
                "contents": contents,
                "errors": [],
                "complete": True,
            },
        }

    short = json.loads(fit_to_line(document([["a", 1, 2]], {"a": "eA=="})))
    assert short["inventory"]["contents"] == {"a": "eA=="} and short["inventory"]["errors"] == []
    without = json.loads(fit_to_line(document([["a", 1, 2]], {"a": "x" * MAX_EVENT_BYTES})))
    assert without["inventory"]["contents"] == {} and without["inventory"]["files"] == [["a", 1, 2]]
    nameless = json.loads(fit_to_line(document([["a" * MAX_EVENT_BYTES, 1, 2]], {})))
    assert nameless["inventory"]["files"] == [] and nameless["inventory"]["complete"] is False


def test_unknown_mode_turns_inventories_off(caplog):
    assert [checked_mode(text) for text in (None, "", "full", "LOGS", "off", "of")] == [
        "full",
        "full",
        "full",
        "logs",
        "off",
        "off",
    ]
    assert "CONTROLPLANE_INVENTORY" in caplog.text


def test_file_sink_output_is_included(driver, tmp_path):
    write_checkpoint(tmp_path)
    driver.entry.run.facts = lambda: {"sink": "FileSink[file:/out]"}
    driver.ask()
    assert driver.out[0][1]["output"]["complete"] is False


def test_run_that_fails_before_its_start_is_recorded_is_inventoried(driver):
    """Spark reports the end before `start()` has returned."""
    driver.inventories.on_event("terminated", "r2", '{"exception":"boom"}')
    assert driver.out == []
    driver.inventories.started(driver.start("q2", "r2", f"file:{driver.root}"))
    assert driver.came.wait(20)
    (_, event) = driver.out[0]
    assert (event["why"], event["runId"]) == ("failed", "r2")
    assert driver.inventories._early_ends == {}


def test_ends_of_unknown_runs_are_forgotten(driver):
    for number in range(300):
        driver.inventories.on_event("terminated", f"r-{number}", "{}")
    assert len(driver.inventories._early_ends) == 100
