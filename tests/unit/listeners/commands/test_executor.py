"""Commands: what is carried out, what is refused and why, and that a refusal changes nothing."""

import pytest

from listeners.commands.executor import Executor
from listeners.protocol.wire import Command
from listeners.queries.registry import Registry
from listeners.spark.engine import Start
from tests.unit.listeners.fake_spark import ENGINE, JavaQuery, Query, Session, Writer


class Driver:
    """A registry with one running query `q`, started by a recorded writer."""

    def __init__(self, *leaves, mode="all", checkpoint="file:/ck", seen=True):
        self.registry, self.session, self.writer = Registry(), Session(), Writer(*leaves)
        self.query = Query(JavaQuery("q", "r1", "orders", checkpoint))
        self.next, self.failed = [JavaQuery("q", f"r{n}", "orders", checkpoint) for n in (2, 3, 4)], []
        start = Start(
            "start", self._begin, self.writer, (), {}, self.session, self.registry.touch(self.writer), ENGINE
        )
        self.registry.started(self.query, start if seen else None, self.session, ENGINE)
        self.executor = Executor(
            self.registry,
            mode,
            lambda text: text.replace("s3cret", "***"),
            lambda *args: self.failed.append(args),
        )

    def _begin(self, writer):
        self.registry.touch(writer)  # as PySpark's start() does: it passes options on to the writer
        following = self.next.pop(0)
        if isinstance(following, Exception):
            raise following
        return Query(following)

    def do(self, action, **fields):
        return self.executor.execute(Command("c1", action, fields.pop("query_id", "q"), **fields))


def outcome(result):
    return result.state, result.code


def test_stop_start_and_restart():
    driver = Driver()
    assert outcome(driver.do("stop")) == ("succeeded", "stopped") and not driver.query._jsq.isActive()
    started = driver.do("start")
    assert outcome(started) == ("succeeded", "started") and started.evidence["run_id"] == "r2"
    assert driver.do("restart").evidence["run_id"] == "r3"
    assert driver.do("restart").evidence["previous_run_id"] == "r3"
    assert driver.query._jsq.runId().toString() == "r4"


@pytest.mark.parametrize(
    ("leaves", "made", "action", "code"),
    [
        ((), {"mode": "none"}, "stop", "forbidden_by_driver"),
        ((), {"mode": "stop"}, "restart", "forbidden_by_driver"),
        ((), {}, "start", "already_running"),
        ((("StreamingRelationV2", True), ("LogicalRelation", False)), {}, "restart", "needs_factory"),
        ((), {"checkpoint": "file:/tmp/temporary-1234"}, "restart", "temporary_checkpoint"),
        ((), {"checkpoint": None}, "restart", "needs_factory"),
        ((), {"seen": False}, "restart", "needs_factory"),
    ],
)
def test_what_cannot_be_done_safely_is_refused_and_the_query_runs_on(leaves, made, action, code):
    driver = Driver(*leaves, **made)
    assert outcome(driver.do(action)) == ("refused", code)
    assert driver.query._jsq.isActive() and driver.query._jsq.runId().toString() == "r1"


def test_data_inside_the_plan_is_no_obstacle():
    assert Driver(("StreamingRelationV2", True), ("LocalRelation", False)).do("restart").state == "succeeded"


def test_a_writer_configured_since_is_not_used_again():
    driver = Driver()
    driver.registry.touch(driver.writer)
    assert outcome(driver.do("restart")) == ("refused", "needs_factory")


def test_an_unknown_query_and_a_stopped_one_are_refused():
    driver = Driver()
    assert outcome(driver.do("stop", query_id="x")) == ("refused", "unknown_query")
    driver.do("stop")
    assert outcome(driver.do("stop")) == ("refused", "not_running")


def test_one_command_at_a_time():
    driver = Driver()
    with driver.registry.entry("q").busy:
        assert outcome(driver.do("restart")) == ("refused", "busy")


def test_a_factory_gets_the_overrides_it_has_parameters_for_and_no_others():
    driver, given = Driver(), {}
    refused = driver.do("restart", overrides={"rate": 5})
    assert outcome(refused) == ("refused", "unsupported_override") and "factory" in refused.reason

    def build(rate=1):
        given["rate"] = rate
        return Query(driver.next.pop(0))

    driver.registry.register_factory("orders", build)
    done = driver.do("restart", overrides={"rate": 5})
    assert done.state == "succeeded" and given == {"rate": 5} and done.evidence["overrides"] == {"rate": 5}
    assert driver.session.entered == [None]  # its session is the thread's active one
    refused = driver.do("restart", overrides={"speed": 5})
    assert outcome(refused) == ("refused", "unsupported_override")
    assert "no parameter speed; its parameters: rate" in refused.reason
    assert driver.do("restart").state == "succeeded" and given == {"rate": 1}


def test_a_factory_that_returns_no_query_is_told_so():
    driver = Driver()
    driver.registry.register_factory("orders", lambda: None)
    result = driver.do("restart")
    assert outcome(result) == ("failed", "start_failed") and "returned nothing" in result.reason


def test_another_trigger_interval_is_for_the_run_that_it_starts():
    driver = Driver()
    assert driver.do("restart", overrides={"trigger": "10 seconds"}).state == "succeeded"
    # Right after the start the writer is the program's own again.
    assert driver.writer.triggers == ["10000 milliseconds", "2000 milliseconds"]
    driver.registry.entry("q").run.jsq.facts["triggerInterval"] = 10.0  # the new run's, and not the program's
    assert driver.do("restart", overrides={"trigger": 0.5}).state == "succeeded"
    assert driver.writer.triggers[2:] == ["500 milliseconds", "2000 milliseconds"]
    assert driver.do("restart").state == "succeeded" and len(driver.writer.triggers) == 4


def test_a_start_that_fails_leaves_the_program_its_own_trigger():
    driver = Driver()
    driver.next.insert(0, RuntimeError("refused"))
    assert outcome(driver.do("restart", overrides={"trigger": "1 hour"})) == ("failed", "start_failed")
    assert driver.writer.triggers == ["3600000 milliseconds", "2000 milliseconds"]
    assert driver.do("start").state == "succeeded" and len(driver.writer.triggers) == 2


@pytest.mark.parametrize("action", ["stop", "start", "restart"])
def test_an_agent_that_was_taken_out_does_nothing(action):
    driver = Driver()
    driver.registry.close()
    assert outcome(driver.do(action)) == ("refused", "closed") and driver.query._jsq.isActive()


def test_a_trigger_of_another_kind_is_not_overridden():
    driver = Driver()
    driver.query._jsq.facts = {"trigger": "available_now"}
    refused = driver.do("restart", overrides={"trigger": "10 seconds"})
    assert outcome(refused) == ("refused", "unsupported_override") and "available_now" in refused.reason
    assert driver.query._jsq.isActive() and driver.writer.triggers == []


def test_a_stop_takes_no_overrides():
    driver = Driver()
    assert outcome(driver.do("stop", overrides={"trigger": 1})) == ("refused", "unsupported_override")
    assert driver.query._jsq.isActive()


@pytest.mark.parametrize("with_factory", [False, True])
def test_a_memory_sink_that_spark_does_not_resume_is_left_running(with_factory):
    driver = Driver()
    driver.query._jsq.facts = {"sink": "MemorySink", "outputMode": "append"}
    if with_factory:
        driver.registry.register_factory("orders", lambda: None)
    assert outcome(driver.do("restart")) == ("refused", "cannot_resume") and driver.query._jsq.isActive()
    driver.query._jsq.facts = {"sink": "MemorySink", "outputMode": "complete"}
    if not with_factory:
        assert driver.do("restart").state == "succeeded"


def test_a_factory_cannot_resume_a_query_whose_checkpoint_is_temporary():
    driver = Driver(checkpoint="file:/tmp/temporary-1234")
    driver.registry.register_factory("orders", lambda: None)
    assert outcome(driver.do("restart")) == ("refused", "temporary_checkpoint")
    assert driver.query._jsq.isActive()


def test_an_action_of_a_newer_server_is_refused_in_words():
    refused = Driver().do("dance")
    assert outcome(refused) == ("refused", "unsupported_action") and "dance" in refused.reason


def test_a_start_that_raises_leaves_the_query_held_and_tells_the_text_without_secrets():
    driver = Driver()
    driver.next.insert(0, RuntimeError("[STATE_STORE_X] password s3cret"))
    result = driver.do("restart")
    assert outcome(result) == ("failed", "start_failed")
    assert result.evidence["exception"] == "RuntimeError: [STATE_STORE_X] password ***"
    assert driver.registry.entry("q").held and len(driver.failed) == 1
    assert driver.do("start").state == "succeeded"


def test_what_a_factory_made_instead_of_the_query_is_stopped_and_wakes_nobody():
    driver = Driver()
    wrong = Query(JavaQuery("other", "r9"))

    def build():
        driver.registry.started(wrong, None, driver.session, ENGINE)  # as the wrapped start() does
        return wrong

    driver.registry.register_factory("orders", build)
    result = driver.do("restart")
    assert outcome(result) == ("failed", "wrong_query") and not wrong._jsq.isActive()
    assert result.evidence["started_query_id"] == "other" and driver.registry.entry("other") is None
    assert driver.registry.entry("q").held


def test_a_neighbour_that_a_factory_started_runs_on():
    driver = Driver()
    neighbour = Query(JavaQuery("other", "r8"))
    driver.registry.started(neighbour, None, driver.session, ENGINE)
    again = Query(JavaQuery("other", "r9"))

    def build():
        driver.registry.started(again, None, driver.session, ENGINE)
        return again

    driver.registry.register_factory("orders", build)
    assert outcome(driver.do("restart")) == ("failed", "wrong_query")
    assert again._jsq.isActive() and driver.registry.entry("other").run_id == "r9"


def test_a_stop_that_does_not_end_is_said_and_no_start_is_tried_until_it_has():
    driver = Driver()
    driver.query._jsq.hangs = True
    assert outcome(driver.do("stop", timeout_seconds=1.0)) == ("failed", "stop_timed_out")
    assert driver.registry.entry("q").held  # whenever it ends, it is our doing
    assert outcome(driver.do("start")) == ("refused", "still_stopping")
    assert outcome(driver.do("stop")) == ("refused", "still_stopping")
    assert outcome(driver.do("restart")) == ("refused", "still_stopping")
    driver.query._jsq.fail(None)  # the batch is done at last
    assert driver.do("start").state == "succeeded"


def test_the_programs_own_stop_during_a_restart_wins():
    driver = Driver()
    following = driver.next[0]

    def build():
        driver.registry.entry("q").stop_asked = True  # while the new run begins
        return Query(driver.next.pop(0))

    driver.registry.register_factory("orders", build)
    driver.do("restart")
    assert not following.isActive()


def test_a_factory_may_fail_at_once_without_ending_the_program():
    driver = Driver()

    def build():
        query = Query(driver.next.pop(0))
        driver.registry.started(query, None, driver.session, ENGINE)
        assert driver.registry.entry("q").probation == "r2"  # before anybody can be woken by its end
        return query

    driver.registry.register_factory("orders", build)
    assert driver.do("restart").state == "succeeded"


def test_a_drain_that_finds_no_gap_stops_at_its_deadline_and_says_so():
    driver = Driver()
    driver.query._jsq.trigger_active = True
    driver.query._jsq.planned, driver.query._jsq.committed = 8, 7
    result = driver.do("stop", drain=True, timeout_seconds=1.0)
    assert result.state == "succeeded" and result.evidence["drained"] is False
    assert result.evidence["cut_batch"] == 8 and "batch 8, which will run again" in result.reason


def test_an_error_of_our_own_is_a_result_too_and_tells_no_secret():
    driver = Driver()
    driver.query._jsq.stop_error = RuntimeError("py4j is gone, password s3cret")
    result = driver.do("stop")
    assert result.state == "failed" and driver.query._jsq.isActive()
    assert "s3cret" not in result.reason and "s3cret" not in result.evidence["exception"]
    assert not driver.registry.entry("q").held
