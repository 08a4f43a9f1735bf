"""Events and commands of the agent on each Spark version, in a driver without any code for it."""

from __future__ import annotations

import pytest

from tests.spark.matrix.conftest import Guest

pytestmark = pytest.mark.matrix


def test_the_agent_is_there_from_the_session_on(guest: Guest) -> None:
    began = guest.recorder.wait_for(lambda: guest.recorder.events)[0]
    assert began["type"] == "app_started" and began["data"]["program"] == "console.py"
    assert began["app"]["name"] == "guest" and began["app"]["spark_version"].startswith(guest.version)


def test_events_come_as_spark_wrote_them(guest: Guest) -> None:
    run = guest.start("heard")
    guest.wait_for_batch(run["runId"])
    started = guest.recorder.of_type("started", runId=run["runId"])[0]
    assert (started["id"], started["name"]) == (run["id"], "heard") and started["timestamp"]
    report = guest.recorder.of_type("progress", runId=run["runId"])[0]
    assert report["numInputRows"] == 3 and report["sources"][0]["endOffset"] == {"logOffset": 0}
    guest.driver.do("queries['heard'].stop()")
    ended = guest.recorder.wait_for(lambda: guest.recorder.of_type("terminated", runId=run["runId"]))[0]
    assert ended["id"] == run["id"] and ended["exception"] is None


def test_an_idle_query_reports_it_where_this_spark_has_an_idle_event(guest: Guest) -> None:
    run = guest.start("idles")
    guest.wait_for_batch(run["runId"])
    if guest.number >= (3, 5):
        guest.recorder.wait_for(lambda: guest.recorder.of_type("idle", runId=run["runId"]))
    else:  # Spark 3.4 repeats the report of the last batch instead
        guest.recorder.wait_for(lambda: len(guest.batches(run["runId"])) > 1)
        assert not guest.recorder.of_type("idle")
    guest.driver.do("queries['idles'].stop()")


def test_the_facts_and_the_shape_of_a_query_are_reported(guest: Guest) -> None:
    run = guest.start("reported", '.trigger(processingTime="1 second")')
    facts = guest.reported(run["id"], "facts")
    assert (facts["trigger"], facts["triggerInterval"], facts["outputMode"]) == (
        "processing_time",
        1.0,
        "append",
    )
    assert facts["checkpoint"].endswith("checkpoint/reported") and facts["checkpointIsTemporary"] is False
    assert facts["restart"] == "reuse" and facts["sink"]
    assert [source["format"] for source in facts["shape"]["sources"]] == ["json"]
    guest.driver.do("queries['reported'].stop()")


#: What a running stateful query does not report, by version; docs/agent.md has it as a table.
UNTOLD = {"3.4": ["progress.batchDuration"], "3.5": ["progress.batchDuration"]}


def test_what_this_spark_does_not_report_is_on_the_list(guest: Guest) -> None:
    untold = guest.driver.do(
        """
        from listeners.spark import classic
        late = spark.readStream.format("rate").load().withWatermark("timestamp", "10 seconds").dropDuplicates()
        asked = late.writeStream.format("noop").queryName("late").trigger(processingTime="1 second").start()
        while not asked.lastProgress:
            pass
        run = classic.ENGINE.run(asked)
        told = dict(run.facts(), shape=None, thread=run.thread(), figures=classic.driver_figures(spark),
                    planned=run.batches_on_record()[0], committed=run.batches_on_record()[1],
                    tasks=classic.tasks(spark, str(asked.runId)).completed or None, status=run.status().message,
                    event=asked._jsq.lastProgress().json(), leaves=classic.ENGINE.static_leaves(late.writeStream) == []
                    and classic.ENGINE.stream_formats(late.writeStream) == ["rate"])
        told.update({"shape." + part: value for part, value in run.shape(None).items()})
        figures = __import__("json").loads(told.pop("event"))
        told.update({"progress." + part: figures.get(part) for part in ("batchDuration", "durationMs", "eventTime")})
        told.pop("shape")
        asked.stop()
        answer = sorted(part for part, value in told.items() if value is None)
        """
    )
    assert untold == UNTOLD.get(guest.version, [])


def test_a_restart_by_command_resumes_and_the_sink_holds_every_row_once(guest: Guest) -> None:
    run = guest.start("again")
    guest.wait_for_batch(run["runId"])
    result = guest.recorder.command("restart", run["id"])
    assert result["state"] == "succeeded", result
    now = guest.driver.tell("str(queries['again'].runId)")
    assert now == result["evidence"]["run_id"] != run["runId"]
    guest.feed("again")
    guest.wait_for_batch(now, 1)
    assert guest.batches(now)[0] == 1 and guest.rows("again") == list(range(6))
    guest.driver.do("queries['again'].stop()")


def test_who_awaits_a_query_outlives_its_commanded_stop_and_follows_the_next_run(guest: Guest) -> None:
    run = guest.start("awaited")
    guest.wait_for_batch(run["runId"])
    guest.driver.do(
        """
        import threading
        spark.streams.resetTerminated()
        waits = [queries["awaited"].awaitTermination, spark.streams.awaitAnyTermination]
        waiters = [threading.Thread(target=wait, daemon=True) for wait in waits]
        for waiter in waiters:
            waiter.start()
        """
    )
    assert guest.recorder.command("stop", run["id"])["state"] == "succeeded"
    assert guest.driver.tell("[waiter.is_alive() for waiter in waiters]") == [True, True]
    assert guest.recorder.command("start", run["id"])["state"] == "succeeded"
    assert guest.driver.tell("[queries['awaited'].isActive, *(w.is_alive() for w in waiters)]") == [True] * 3
    guest.driver.do("queries['awaited'].stop()")
    ended = "[waiter.join(240) or waiter.is_alive() for waiter in waiters]"
    assert guest.driver.tell(ended) == [False, False]


def test_a_failure_is_reported_with_its_cause_and_raised_as_spark_raises_it(guest: Guest) -> None:
    run = guest.start(
        "fails", ".foreachBatch(lambda frame, batch: spark.sql('select * from nowhere_at_all'))"
    )
    reported = guest.driver.do(
        """
        try:
            queries["fails"].awaitTermination()
            answer = None
        except Exception as error:
            answer = [type(error).__name__, str(error)]
        """
    )
    assert reported[0] == "StreamingQueryException" and "nowhere_at_all" in reported[1]
    ended = guest.recorder.wait_for(lambda: guest.recorder.of_type("terminated", runId=run["runId"]))[0]
    assert "TABLE_OR_VIEW_NOT_FOUND" in ended["exception"] and "\tat " in ended["exception"]


def test_a_start_that_fails_is_reported_and_raised(guest: Guest) -> None:
    with pytest.raises(AssertionError, match="AnalysisException"):
        guest.start("wrong", ".outputMode('complete')")
    failed = guest.recorder.wait_for(lambda: guest.recorder.of_type("start_failed", name="wrong"))[0]
    assert failed["method"] == "start" and failed["exception"]


def test_queries_of_a_new_session_are_reported_and_restarted(guest: Guest) -> None:
    guest.driver.do("first, spark = spark, spark.newSession()")
    run = guest.start("elsewhere")
    guest.wait_for_batch(run["runId"])
    assert guest.recorder.command("restart", run["id"])["state"] == "succeeded"
    guest.driver.do("queries['elsewhere'].stop(); spark = first")


def test_a_users_own_listener_gets_the_same_events(guest: Guest) -> None:
    guest.driver.do(
        """
        from pyspark.sql.streaming import StreamingQueryListener
        heard = []
        class Own(StreamingQueryListener):
            def onQueryStarted(self, event): heard.append("started")
            def onQueryProgress(self, event): heard.append("progress")
            def onQueryIdle(self, event): pass
            def onQueryTerminated(self, event): heard.append("terminated")
        spark.streams.addListener(Own())
        """
    )
    run = guest.start("doubly")
    guest.wait_for_batch(run["runId"])
    guest.driver.do("queries['doubly'].stop()")
    guest.recorder.wait_for(lambda: guest.recorder.of_type("terminated", runId=run["runId"]))
    guest.recorder.wait_for(lambda: "terminated" in guest.driver.tell("heard"))
    assert guest.driver.tell("heard[0], 'progress' in heard") == ["started", True]


def test_who_wraps_the_same_methods_is_called_and_so_are_we(guest: Guest) -> None:
    guest.driver.do(
        """
        from pyspark.sql.streaming.readwriter import DataStreamWriter
        ours, seen = DataStreamWriter.start, []
        def start(self, *args, **kwargs):
            seen.append("start")
            return ours(self, *args, **kwargs)
        DataStreamWriter.start = start
        """
    )
    run = guest.start("wrapped")
    guest.wait_for_batch(run["runId"])
    assert guest.recorder.command("restart", run["id"])["state"] == "succeeded"
    assert guest.driver.tell("seen") == ["start"]
    guest.driver.do("queries['wrapped'].stop(); DataStreamWriter.start = ours")


def test_attaching_by_hand_as_well_changes_nothing(guest: Guest) -> None:
    same = "attach.attach(spark) is attach.current() is attach.attach(spark)"
    assert guest.driver.do(f"from listeners import attach\nanswer = {same}") is True
    run = guest.start("once")
    guest.wait_for_batch(run["runId"])
    assert len(guest.recorder.of_type("started", runId=run["runId"])) == 1
    assert len(guest.recorder.of_type("app_started")) == 1
    guest.driver.do("queries['once'].stop()")


def test_a_forked_child_has_no_agent_and_the_parent_keeps_its_own(guest: Guest) -> None:
    guest.driver.do(
        """
        import multiprocessing, os
        from listeners import attach
        def look(told):
            told.put((attach.current() is None, [t.name for t in threading.enumerate() if "controlplane" in t.name]))
        context = multiprocessing.get_context("fork")
        told = context.Queue()
        child = context.Process(target=look, args=(told,))
        child.start(); answer = told.get(timeout=240); child.join(240)
        answer = [answer, child.exitcode]
        """
    )
    assert guest.driver.do("import threading") is None
    run = guest.start("parent")
    guest.wait_for_batch(run["runId"])
    assert not guest.recorder.of_type("app_ended")
    guest.driver.do("queries['parent'].stop()")


def test_workers_of_spark_have_no_agent(guest: Guest) -> None:
    inside = guest.driver.do(
        """
        def look(rows):
            import sys
            yield [name for name in sys.modules if name.startswith("listeners")] + [
                type(one).__name__ for one in sys.meta_path if hasattr(one, "controlplane")]
        answer = spark.sparkContext.parallelize([1], 1).mapPartitions(look).collect()
        """
    )
    assert inside == [[]]


def test_nothing_of_ours_was_printed(guest: Guest) -> None:
    lines = guest.driver.log.read_text().splitlines()
    assert [
        line
        for line in lines
        if "control plane" in line or "listeners" in line or "Exception ignored" in line
    ] == []
