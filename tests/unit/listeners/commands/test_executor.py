"""The executor: what it executes, what it refuses and why; a refusal changes nothing."""

import sys

import pytest

from listeners.commands.executor import Executor
from listeners.protocol.wire import Command
from listeners.queries.registry import Registry
from listeners.spark.connect import pipelines
from listeners.spark.engine import Start
from tests.unit.listeners.fake_spark import ENGINE, JavaQuery, Leaf, Query, Session, Writer


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
        self.registry.touch(writer)  # as PySpark's start() does: it sets options on the writer
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
def test_unsafe_action_is_refused_and_the_query_keeps_running(leaves, made, action, code):
    driver = Driver(*leaves, **made)
    assert outcome(driver.do(action)) == ("refused", code)
    assert driver.query._jsq.isActive() and driver.query._jsq.runId().toString() == "r1"


def test_a_query_that_every_start_puts_into_a_new_directory_is_not_stopped_for_a_restart():
    driver = Driver()
    driver.query._jsq.facts = {"checkpointIsMadeUp": True}
    result = driver.do("restart")
    assert outcome(result) == ("refused", "temporary_checkpoint")
    assert "neither a name nor a checkpointLocation" in result.reason
    assert driver.query._jsq.isActive()


def test_a_flow_of_a_pipeline_is_started_by_its_pipeline(monkeypatch):
    monkeypatch.setitem(sys.modules, pipelines.COMMAND_MODULE, sys)
    for query in ("q", "not registered"):
        result = Driver(seen=False).do("restart", query_id=query)
        assert outcome(result) == ("refused", "pipeline_flow")
        assert "spark-pipelines run" in result.reason


def test_data_inside_the_plan_does_not_prevent_a_restart():
    assert Driver(("StreamingRelationV2", True), ("LocalRelation", False)).do("restart").state == "succeeded"


def test_writer_configured_since_is_not_reused():
    driver = Driver()
    driver.registry.touch(driver.writer)
    assert outcome(driver.do("restart")) == ("refused", "needs_factory")


def test_unknown_and_stopped_queries_are_refused():
    driver = Driver()
    assert outcome(driver.do("stop", query_id="x")) == ("refused", "unknown_query")
    driver.do("stop")
    assert outcome(driver.do("stop")) == ("refused", "not_running")


def test_one_command_at_a_time():
    driver = Driver()
    with driver.registry.entry("q").busy:
        assert outcome(driver.do("restart")) == ("refused", "busy")


def test_factory_gets_only_overrides_it_has_parameters_for():
    driver, given = Driver(), {}
    refused = driver.do("restart", overrides={"rate": 5})
    assert outcome(refused) == ("refused", "unsupported_override") and "factory" in refused.reason

    def build(rate=1):
        given["rate"] = rate
        return Query(driver.next.pop(0))

    driver.registry.register_factory("orders", build)
    done = driver.do("restart", overrides={"rate": 5})
    assert done.state == "succeeded" and given == {"rate": 5} and done.evidence["overrides"] == {"rate": 5}
    assert driver.session.entered == [None]  # its session is the thread's active session
    refused = driver.do("restart", overrides={"speed": 5})
    assert outcome(refused) == ("refused", "unsupported_override")
    assert "no parameter speed; its parameters: rate" in refused.reason
    assert driver.do("restart").state == "succeeded" and given == {"rate": 1}


def test_factory_that_returns_no_query_fails():
    driver = Driver()
    driver.registry.register_factory("orders", lambda: None)
    result = driver.do("restart")
    assert outcome(result) == ("failed", "start_failed") and "returned nothing" in result.reason


def test_trigger_interval_override_applies_to_one_run():
    driver = Driver()
    assert driver.do("restart", overrides={"trigger": "10 seconds"}).state == "succeeded"
    # After the start the writer has the program's own interval again.
    assert driver.writer.triggers == ["10000 milliseconds", "2000 milliseconds"]
    driver.registry.entry("q").run.jsq.facts["triggerInterval"] = 10.0  # of the new run, not the program's
    assert driver.do("restart", overrides={"trigger": 0.5}).state == "succeeded"
    assert driver.writer.triggers[2:] == ["500 milliseconds", "2000 milliseconds"]
    assert driver.do("restart").state == "succeeded" and len(driver.writer.triggers) == 4


def test_failed_start_restores_the_programs_trigger():
    driver = Driver()
    driver.next.insert(0, RuntimeError("refused"))
    assert outcome(driver.do("restart", overrides={"trigger": "1 hour"})) == ("failed", "start_failed")
    assert driver.writer.triggers == ["3600000 milliseconds", "2000 milliseconds"]
    assert driver.do("start").state == "succeeded" and len(driver.writer.triggers) == 2


@pytest.mark.parametrize("action", ["stop", "start", "restart"])
def test_detached_agent_executes_nothing(action):
    driver = Driver()
    driver.registry.close()
    assert outcome(driver.do(action)) == ("refused", "closed") and driver.query._jsq.isActive()


def test_trigger_of_another_kind_is_not_overridden():
    driver = Driver()
    driver.query._jsq.facts = {"trigger": "available_now"}
    refused = driver.do("restart", overrides={"trigger": "10 seconds"})
    assert outcome(refused) == ("refused", "unsupported_override") and "available_now" in refused.reason
    assert driver.query._jsq.isActive() and driver.writer.triggers == []


def test_stop_takes_no_overrides():
    driver = Driver()
    assert outcome(driver.do("stop", overrides={"trigger": 1})) == ("refused", "unsupported_override")
    assert driver.query._jsq.isActive()


@pytest.mark.parametrize("with_factory", [False, True])
def test_memory_sink_that_cannot_resume_keeps_running(with_factory):
    driver = Driver()
    driver.query._jsq.facts = {"sink": "MemorySink", "outputMode": "append"}
    if with_factory:
        driver.registry.register_factory("orders", lambda: None)
    assert outcome(driver.do("restart")) == ("refused", "cannot_resume") and driver.query._jsq.isActive()
    driver.query._jsq.facts = {"sink": "MemorySink", "outputMode": "complete"}
    if not with_factory:
        assert driver.do("restart").state == "succeeded"


@pytest.mark.parametrize("checkpoint", ["file:/ck", "file:/tmp/temporary-1234"])
def test_socket_source_cannot_resume_whatever_its_checkpoint(checkpoint, monkeypatch):
    monkeypatch.setattr(Leaf, "source", "Socket")
    driver = Driver(checkpoint=checkpoint)
    driver.registry.register_factory("orders", lambda: None)
    refused = driver.do("restart")
    assert outcome(refused) == ("refused", "cannot_resume") and "socket source" in refused.reason
    assert driver.query._jsq.isActive() and driver.do("stop").state == "succeeded"


def test_factory_cannot_resume_a_temporary_checkpoint():
    driver = Driver(checkpoint="file:/tmp/temporary-1234")
    driver.registry.register_factory("orders", lambda: None)
    assert outcome(driver.do("restart")) == ("refused", "temporary_checkpoint")
    assert driver.query._jsq.isActive()


def test_unknown_action_is_refused_with_a_reason():
    refused = Driver().do("dance")
    assert outcome(refused) == ("refused", "unsupported_action") and "dance" in refused.reason


def test_failed_start_keeps_the_query_held_and_masks_secrets():
    driver = Driver()
    driver.next.insert(0, RuntimeError("[STATE_STORE_X] password s3cret"))
    result = driver.do("restart")
    assert outcome(result) == ("failed", "start_failed")
    assert result.evidence["exception"] == "RuntimeError: [STATE_STORE_X] password ***"
    assert driver.registry.entry("q").held and len(driver.failed) == 1
    assert driver.do("start").state == "succeeded"


def test_wrong_query_of_a_factory_is_stopped_and_wakes_no_waiter():
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


def test_other_query_started_by_a_factory_keeps_running():
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


def test_unfinished_stop_is_reported_and_blocks_a_start():
    driver = Driver()
    driver.query._jsq.hangs = True
    assert outcome(driver.do("stop", timeout_seconds=1.0)) == ("failed", "stop_timed_out")
    assert driver.registry.entry("q").held  # whenever it ends, the command caused it
    assert outcome(driver.do("start")) == ("refused", "still_stopping")
    assert outcome(driver.do("stop")) == ("refused", "still_stopping")
    assert outcome(driver.do("restart")) == ("refused", "still_stopping")
    driver.query._jsq.fail(None)  # the batch has finished at last
    assert driver.do("start").state == "succeeded"


def test_programs_own_stop_during_a_restart_wins():
    driver = Driver()
    following = driver.next[0]

    def build():
        driver.registry.entry("q").stop_requested = True  # while the new run starts
        return Query(driver.next.pop(0))

    driver.registry.register_factory("orders", build)
    driver.do("restart")
    assert not following.isActive()


def test_factory_may_fail_at_once_without_ending_the_program():
    driver = Driver()

    def build():
        query = Query(driver.next.pop(0))
        driver.registry.started(query, None, driver.session, ENGINE)
        assert driver.registry.entry("q").probation == "r2"  # before its end can wake anyone
        return query

    driver.registry.register_factory("orders", build)
    assert driver.do("restart").state == "succeeded"


def test_drain_without_a_gap_stops_at_its_deadline():
    driver = Driver()
    driver.query._jsq.trigger_active = True
    driver.query._jsq.planned, driver.query._jsq.committed = 8, 7
    result = driver.do("stop", drain=True, timeout_seconds=1.0)
    assert result.state == "succeeded" and result.evidence["drained"] is False
    assert result.evidence["cut_batch"] == 8 and "batch 8, which will run again" in result.reason


def test_internal_error_is_a_result_without_secrets():
    driver = Driver()
    driver.query._jsq.stop_error = RuntimeError("py4j is gone, password s3cret")
    result = driver.do("stop")
    assert result.state == "failed" and driver.query._jsq.isActive()
    assert "s3cret" not in result.reason and "s3cret" not in result.evidence["exception"]
    assert not driver.registry.entry("q").held
