"""The prober: its status documents, when it counts tasks, and when it sends the facts again."""

from types import SimpleNamespace

import pytest

from listeners.queries.prober import Prober
from listeners.queries.registry import Registry
from listeners.spark.engine import SparkOutage, SparkStatus, SparkTasks, Start
from tests.unit.listeners.fake_spark import ENGINE, FakeEngine, JavaQuery, Query, Session, Writer


class Seen(FakeEngine):
    """Lists one query with the state that a test sets."""

    def __init__(self, query, state, figures=dict):
        self._query, self._state, self._figures = query, state, figures

    def active(self, session):
        run = self.run(self._query)
        run.status = lambda: SparkStatus(self._state.message, True, self._state.active)
        return [run]

    def tasks(self, session, run_id):
        self._state.asked += 1
        return self._state.tasks

    def driver_figures(self, session):
        return self._figures()


@pytest.fixture
def driver():
    registry, session, writer = Registry(), Session(), Writer()
    query = Query(JavaQuery("q", "r1", "orders"))
    start = Start("start", None, writer, (), {}, session, registry.touch(writer), ENGINE)
    registry.started(query, start, session, ENGINE)
    state = SimpleNamespace(
        message="Processing new data",
        active=True,
        tasks=SparkTasks(2, 10, 1),
        asked=0,
        now=100.0,
        clock_set_by=0.0,
    )

    prober = Prober(
        registry,
        lambda: [session],
        lambda: state.now + state.clock_set_by,
        engine_of=lambda session: Seen(query, state),
        monotonic=lambda: state.now,
    )
    state.registry, state.writer, state.query = registry, writer, query
    state.probe = lambda: prober.probe()["queries"][0]
    return state


def test_tasks_are_counted_only_in_a_long_trigger(driver):
    assert "tasksCompleted" not in driver.probe() and driver.asked == 0
    assert driver.probe()["tasksCompleted"] == 10
    driver.active = False
    assert "tasksCompleted" not in driver.probe() and driver.asked == 1


def test_rising_count_sets_the_time_of_the_last_task(driver):
    driver.probe()
    assert driver.probe()["lastTaskAt"] is None
    driver.tasks, driver.now = SparkTasks(2, 11, 1), 110.0
    assert driver.probe()["lastTaskAt"] == 110.0
    driver.now = 120.0
    assert driver.probe()["lastTaskAt"] == 110.0
    driver.tasks, driver.now = SparkTasks(1, 11, 2), 130.0
    assert driver.probe()["lastTaskAt"] == 130.0


def test_times_of_tasks_follow_the_clock_of_the_host_when_it_is_set(driver):
    """Otherwise tasks that finished a minute ago would seem to be an hour old."""
    driver.probe(), driver.probe()
    driver.tasks, driver.now = SparkTasks(2, 11, 1), 110.0
    driver.probe()
    driver.now, driver.clock_set_by = 120.0, 3600.0
    document = driver.probe()
    assert (document["tasksSince"], document["lastTaskAt"], document["tasksAt"]) == (3710.0, 3710.0, 3720.0)


def test_unchanged_count_has_the_times_of_its_first_and_last_poll(driver):
    driver.probe()
    times = []
    for driver.now in (110.0, 170.0, 180.0):
        document = driver.probe()
        times.append((document["tasksSince"], document["tasksAt"]))
    assert times == [(110.0, 110.0), (110.0, 170.0), (110.0, 180.0)]


def test_status_has_the_times_of_the_list_and_of_each_answer(driver):
    """The server must not count a query as gone that started while a slow Spark described the others."""

    def slow_answer():
        driver.now += 40.0
        return SparkStatus("Processing new data", True, True)

    engine = Seen(driver.query, driver)
    run = ENGINE.run(driver.query)
    run.status = slow_answer
    engine.active = lambda session: [run, run]
    prober = Prober(
        driver.registry, lambda: [Session()], lambda: driver.now, engine_of=lambda session: engine
    )
    status = prober.probe()
    assert (status["listedAt"], [query["at"] for query in status["queries"]]) == (100.0, [100.0, 140.0])


def test_every_answer_of_a_round_shows_that_spark_answers(driver):
    answers = []
    engine = Seen(driver.query, driver)
    prober = Prober(driver.registry, lambda: [Session()], engine_of=lambda session: engine)
    prober.on_answer = lambda: answers.append(driver.asked)
    prober.probe()
    prober.probe()
    assert answers == [0, 0, 0, 0, 0, 1]


def test_query_that_cannot_be_described_is_listed_without_a_status(driver):
    """Without it the list would be incomplete, and no query that disappears would be noticed."""
    engine = Seen(driver.query, driver)
    good, bad = ENGINE.run(driver.query), ENGINE.run(Query(JavaQuery("p", "r2", "prices")))
    good.status = lambda: SparkStatus("Processing new data", True, True)
    bad.status = lambda: fail(None)
    engine.active = lambda session: [bad, good]
    prober = Prober(
        driver.registry, lambda: [Session()], lambda: driver.now, engine_of=lambda session: engine
    )
    status = prober.probe()
    assert "partial" not in status and status["queries"][1]["message"] == "Processing new data"
    assert status["queries"][0] == {"at": 100.0, "id": "p", "runId": "r2", "name": "prices"}


def test_poll_fails_where_spark_answers_for_no_query(driver):
    engine = Seen(driver.query, driver)
    good, bad = ENGINE.run(driver.query), ENGINE.run(Query(JavaQuery("p", "r2", "prices")))
    good.status = lambda: SparkStatus("Processing new data", True, True)
    bad.status = lambda: fail(None)
    engine.outage = lambda error: SparkOutage("no_answer", str(error))
    prober = Prober(driver.registry, lambda: [Session()], engine_of=lambda session: engine)
    engine.active = lambda session: [bad, good]
    assert "partial" not in prober.probe()
    engine.active = lambda session: [bad, bad]
    with pytest.raises(ConnectionError):
        prober.probe()


def test_facts_that_spark_did_not_report_are_asked_for_again(driver):
    run = ENGINE.run(driver.query)
    run.status, run.facts = lambda: SparkStatus("Waiting", False, False), lambda: fail(None)
    engine = Seen(driver.query, driver)
    engine.active = lambda session: [run]
    engine.outage = lambda error: None  # whatever became of the JVM of other tests
    driver.registry.entry("q").run = run
    prober = Prober(driver.registry, lambda: [Session()], engine_of=lambda session: engine)
    (described,) = prober.probe()["queries"]
    assert described["message"] == "Waiting" and "facts" not in described
    run.facts = lambda: {"trigger": "once"}
    assert prober.probe()["queries"][0]["facts"]["trigger"] == "once"


def test_facts_are_sent_again_when_the_restart_method_changes(driver):
    assert driver.probe()["facts"]["restart"] == "reuse"
    assert "facts" not in driver.probe()
    driver.registry.touch(driver.writer)
    assert driver.probe()["facts"]["restart"] == "needs_factory"
    driver.registry.register_factory("orders", lambda: None)
    assert driver.probe()["facts"]["restart"] == "factory"
    assert "facts" not in driver.probe()


def test_shape_is_sent_only_with_a_runs_first_facts(driver):
    assert driver.probe()["facts"]["shape"]["v"] == 1
    driver.registry.touch(driver.writer)
    assert "shape" not in driver.probe()["facts"]


def test_facts_wait_until_the_query_is_initialized(driver):
    driver.message = "Initializing sources"
    assert "facts" not in driver.probe()


def test_run_that_ended_before_any_round_is_described_once(driver):
    ended = Query(JavaQuery("short", "r7", "nightly"))
    driver.registry.started(ended, None, Session(), ENGINE)
    ended._jsq.stop()
    driver.probe()
    prober = Prober(driver.registry, list)
    driver.registry.entry("short").reported = None
    (described,) = prober.probe()["queries"]
    assert (described["id"], described["active"]) == ("short", False) and "trigger" in described["facts"]
    assert prober.probe()["queries"] == []


def test_executors_and_heap_are_kept_while_spark_answers(driver):
    figures = {"executors": 2, "driver": {"heapUsed": 5, "heapMax": 9}}
    engine = Seen(driver.query, driver, lambda: figures)
    prober = Prober(driver.registry, lambda: [Session()], engine_of=lambda session: engine)
    assert prober.driver == {}
    assert prober.probe()["executors"] == 2
    assert prober.driver == figures
    engine.driver_figures = lambda session: {}
    prober.probe()
    assert prober.driver == figures
    engine.active = fail
    with pytest.raises(ConnectionError):
        prober.probe()
    assert prober.driver == {}


def test_missing_executor_figures_do_not_prevent_the_status(driver):
    engine = Seen(driver.query, driver, lambda: fail(None))
    prober = Prober(driver.registry, lambda: [Session()], engine_of=lambda session: engine)
    assert prober.probe()["queries"]
    assert prober.driver == {}


def test_unreachable_session_does_not_prevent_the_status_of_others(driver):
    good, bad = Session(1), Session(2)
    engines = {id(good): Seen(driver.query, driver), id(bad): Seen(driver.query, driver)}
    engines[id(bad)].active = fail
    prober = Prober(driver.registry, lambda: [bad, good], engine_of=lambda session: engines[id(session)])
    status = prober.probe()
    assert status["partial"] is True
    assert [query["id"] for query in status["queries"]] == ["q"]
    engines[id(bad)].active = lambda session: []
    assert "partial" not in prober.probe()


def fail(session):
    raise ConnectionError("the gateway is gone")
