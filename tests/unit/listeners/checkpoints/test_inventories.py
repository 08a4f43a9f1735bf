"""Taking inventories: one at a time, in time, and with a reason where none is taken."""

import json
import threading

import pytest

from listeners.checkpoints.collection import MAX_EVENT_BYTES, fit_to_line
from listeners.checkpoints.inventories import Inventories, checked_mode
from listeners.checkpoints.inventory_reader import Bounds
from listeners.protocol.wire import Command
from listeners.queries.registry import Registry
from listeners.spark.engine import Start
from tests.unit.listeners.fake_spark import ENGINE, JavaQuery, Query, Session, Writer
from tests.unit.listeners.local_files import LocalFiles, write_checkpoint


class Driver:
    """One query with a checkpoint on disk, and what comes out."""

    def __init__(self, root, **more):
        self.root, self.out = root, []
        self.came = threading.Event()
        self.registry = Registry()
        self.session = Session()
        self.session.version = "4.3.0"
        self.entry = self.start("q", "r1", f"file:{root}")
        self.files = LocalFiles(root)
        self.inventories = Inventories(
            self.registry, self.put, open_files=lambda session, place: self.files, **more
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


def test_on_demand_the_event_goes_out_and_the_result_tells_files_and_seconds(driver):
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


def test_a_run_that_shows_a_batch_is_looked_at(driver):
    driver.inventories.started(driver.entry)
    driver.inventories.on_event("progress", "r1", "{}")
    assert driver.came.wait(20)
    assert driver.out[0][1]["why"] == "started"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ('{"runId":"r1","exception":"boom"}', "failed"),
        ('{"runId":"r1","exception":null}', "stopped"),
        ('{"runId":"r1"}', "stopped"),
        ('{"runId": "r1", "exception": "as Spark 3.4 is told"}', "failed"),
    ],
)
def test_an_end_is_looked_at_by_its_kind(driver, data, reason):
    driver.inventories.on_event("terminated", "r1", data)
    assert driver.came.wait(20)
    assert driver.out[0][1]["why"] == reason


def test_a_start_that_spark_refused_is_looked_at_as_a_failure(driver):
    driver.inventories.start_failed(driver.entry)
    assert driver.came.wait(20)
    assert driver.out[0][1]["why"] == "failed"


def test_events_of_runs_that_nobody_knows_are_passed_over(driver):
    driver.inventories.on_event("terminated", "somebody else's", "{}")
    driver.inventories.on_event("progress", "r1", "{}")
    assert driver.ask().state == "succeeded"
    assert [data["why"] for _, data in driver.out] == ["asked"]


def test_a_refusal_says_why_and_is_counted(driver):
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


def test_switched_off_nothing_is_looked_at(tmp_path):
    driver = Driver(tmp_path, mode="off")
    driver.inventories.started(driver.entry)
    driver.inventories.on_event("terminated", "r1", "{}")
    assert driver.ask().code == "inventory_off"
    assert driver.files.calls == []


def test_in_mode_logs_no_row_of_state_leaves_the_driver(tmp_path):
    write_checkpoint(tmp_path)
    driver = Driver(tmp_path, mode="logs")
    assert driver.ask().state == "succeeded"
    assert not any(path.endswith(".delta") for path in driver.out[0][1]["inventory"]["contents"])


def test_a_file_system_that_hangs_costs_the_rest_and_not_what_was_seen(tmp_path):
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


def test_a_command_is_answered_within_its_own_time_with_what_was_seen_by_then(tmp_path):
    write_checkpoint(tmp_path)
    driver, free = Driver(tmp_path, bounds=Bounds(seconds=3600)), threading.Event()
    driver.files.meanwhile = {"state/0": lambda: free.wait(60)}
    try:
        assert driver.ask(seconds=0.5).state == "succeeded"
        inventory = driver.out[0][1]["inventory"]
        assert inventory["complete"] is False and "commits/2" in [path for path, *_ in inventory["files"]]
    finally:
        free.set()


def test_a_command_that_waited_for_another_inventory_has_only_the_rest_of_its_time(tmp_path):
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


def test_a_file_system_that_cannot_be_opened_fails_the_command_in_one_line(tmp_path):
    driver = Driver(tmp_path)

    def refuse(session, place):
        raise OSError("no such bucket")

    driver.inventories._open = refuse
    result = driver.ask()
    assert (result.state, result.code) == ("failed", "agent_error")
    assert "no such bucket" in result.reason and driver.out == []


def test_after_close_nothing_is_taken(driver):
    driver.inventories.close()
    driver.inventories.on_event("terminated", "r1", "{}")
    assert driver.ask().code == "closed"
    assert driver.out == []


def test_what_is_too_long_for_a_line_loses_contents_first_then_names():
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


def test_an_unknown_word_in_the_environment_takes_no_inventory(caplog):
    assert [checked_mode(text) for text in (None, "", "full", "LOGS", "off", "of")] == [
        "full",
        "full",
        "full",
        "logs",
        "off",
        "off",
    ]
    assert "CONTROLPLANE_INVENTORY" in caplog.text


def test_the_output_of_a_file_sink_is_told_beside(driver, tmp_path):
    write_checkpoint(tmp_path)
    driver.entry.run.facts = lambda: {"sink": "FileSink[file:/out]"}
    driver.ask()
    assert driver.out[0][1]["output"]["complete"] is False


def test_a_run_that_failed_before_its_start_was_noted_is_looked_at(driver):
    """`start()` has not returned when Spark tells that the query is dead."""
    driver.inventories.on_event("terminated", "r2", '{"exception":"boom"}')
    assert driver.out == []
    driver.inventories.started(driver.start("q2", "r2", f"file:{driver.root}"))
    assert driver.came.wait(20)
    (_, told) = driver.out[0]
    assert (told["why"], told["runId"]) == ("failed", "r2")
    assert driver.inventories._early_ends == {}


def test_ends_of_runs_that_nobody_ever_starts_are_forgotten(driver):
    for number in range(300):
        driver.inventories.on_event("terminated", f"r-{number}", "{}")
    assert len(driver.inventories._early_ends) == 100
