"""Receiving a Connect session's events over real gRPC: stream, polling, and the program's listeners."""

import json
import threading

import pytest

from listeners.spark import guard
from listeners.spark.connect import events
from listeners.spark.connect.session import ConnectEngine
from tests.unit.listeners.fake_connect import FakeConnect

RUN, OTHER = "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"


class Recorder:
    """Accepts events like `listeners.spark.listener.RawListener`."""

    def __init__(self):
        self.events = []
        self._came = threading.Condition()

    def take(self, type, data, at=None):
        with self._came:
            self.events.append((type, json.loads(data), at))
            self._came.notify_all()

    def wait_for(self, condition, timeout=90.0):
        with self._came:
            assert self._came.wait_for(condition, timeout), self.events

    def batches(self, run=RUN):
        return [
            data["batchId"]
            for type, data, _ in list(self.events)
            if type == "progress" and data["runId"] == run
        ]

    def of(self, kind):
        return [data for type, data, _ in list(self.events) if type == kind]


@pytest.fixture
def quick(monkeypatch):
    for name in ("ROUND_SECONDS", "POLL_ROUND_SECONDS", "RECONNECT_SECONDS"):
        monkeypatch.setattr(events, name, 0.05)
    monkeypatch.setattr(events, "STREAM_START_SECONDS", 1.0)


@pytest.fixture
def server(quick):
    made = FakeConnect()
    yield made
    made.close()


@pytest.fixture
def session(server):
    made = server.session()
    yield made
    made.client.close()


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def engine(session, recorder):
    made = ConnectEngine()
    made.off = made.listen(session, recorder)
    yield made
    made.off()


def stream_of(engine, session):
    return engine._streams[engine.key(session)]


def test_error_in_every_round_is_logged_once(quick, monkeypatch, caplog):
    class Session:
        pass

    monkeypatch.setattr(guard, "_last_warning", {})
    session, rounds, enough = Session(), [], threading.Event()
    made = events.EventStream(session, None)

    def round(_):
        rounds.append(1)
        if len(rounds) == 20:
            enough.set()
        raise KeyError("batchId")

    made._round = round
    made.start()
    assert enough.wait(20)
    made._closed.set()
    assert caplog.text.count("'batchId'") == 1


def wait_for(condition):
    deadline = threading.Event()
    for _ in range(400):
        if condition():
            return
        deadline.wait(0.05)
    raise AssertionError(condition)


def test_streamed_events_are_passed_on_once(engine, session, server, recorder):
    run = server.run(RUN, "orders")
    wait_for(lambda: server.stream is not None)
    server.send("progress", '{"progress":' + run.report(0) + "}")
    server.send("idle", json.dumps({"id": run.query_id, "runId": RUN, "timestamp": "t"}))
    recorder.wait_for(lambda: recorder.of("idle"))
    assert recorder.batches() == [0] and [s["name"] for s in recorder.of("started")] == ["orders"]


def test_reports_missing_in_the_stream_are_read_from_sparks_memory(engine, session, server, recorder):
    run = server.run(RUN)
    for batch in range(3):
        run.report(batch)
    recorder.wait_for(lambda: recorder.batches() == [0, 1, 2])


def test_idle_triggers_in_sparks_memory_are_no_batches_and_leave_the_stream_open(
    engine, session, server, recorder
):
    stream, run = stream_of(engine, session), server.run(RUN)
    wait_for(stream.is_streaming)
    first, stream._added_at = server.stream, 0.0  # the stream was open at the time of the reports
    server.send("progress", '{"progress":' + run.report(0) + "}")
    for next_batch in (1, 2):
        run.report(1, is_idle=True)
        run.reports[-1] = run.reports[-1].replace("00:01.000", f"00:0{next_batch}.000")
    recorder.wait_for(lambda: len(recorder.of("idle")) == 2)
    server.send("progress", '{"progress":' + run.report(3) + "}")
    recorder.wait_for(lambda: recorder.batches() == [0, 3])
    assert server.stream is first and stream.is_streaming()


def test_end_follows_the_reports_that_spark_made_before_the_stream(
    engine, session, server, recorder, monkeypatch
):
    stream = stream_of(engine, session)
    wait_for(stream.is_streaming)
    with monkeypatch.context() as slow:
        slow.setattr(stream, "_poll", lambda *_: None)  # no round yet
        run = server.run(RUN)
        run.report(0), run.report(1)
        server.send("progress", '{"progress":' + run.report(2) + "}")
        server.send("terminated", end_of(run))
        run.active = False
        wait_for(lambda: [each for each in stream._dedup.open_runs() if each.held_end])
        assert recorder.batches() == [2] and not recorder.of("terminated")
    recorder.wait_for(lambda: recorder.of("terminated"))
    assert sorted(recorder.batches()) == [0, 1, 2] and recorder.events[-1][0] == "terminated"
    assert len(recorder.of("terminated")) == 1


def test_held_end_is_passed_on_when_the_listener_is_removed(session, server, recorder, quick, monkeypatch):
    engine = ConnectEngine()
    off = engine.listen(session, recorder)
    stream = stream_of(engine, session)
    wait_for(stream.is_streaming)
    monkeypatch.setattr(stream, "_poll", lambda *_: None)
    server.send("terminated", end_of(server.run(RUN), "boom"))
    wait_for(lambda: [each for each in stream._dedup.open_runs() if each.held_end])
    off()
    assert [each["exception"] for each in recorder.of("terminated")] == ["boom"]


def test_disappeared_run_is_reported_as_ended_with_its_failure(engine, server, recorder):
    run = server.run(RUN)
    recorder.wait_for(lambda: recorder.of("started"))
    run.failure, run.active = "StreamingQueryException: boom", False
    run.report(7)
    recorder.wait_for(lambda: recorder.of("terminated"))
    assert recorder.of("terminated")[0]["exception"] == run.failure and recorder.batches() == [7]


def test_broken_stream_is_opened_again_and_its_server_listener_replaced(engine, session, server, recorder):
    wait_for(stream_of(engine, session).is_streaming)
    first = server.stream
    stream_of(engine, session)._call.cancel()
    wait_for(lambda: server.stream not in (None, first))
    wait_for(stream_of(engine, session).is_streaming)
    server.send("progress", server.run(RUN).report(0))
    recorder.wait_for(lambda: recorder.batches() == [0])


def test_reports_missed_before_the_stream_are_read_although_the_newest_arrived_by_it(
    engine, session, server, recorder, monkeypatch
):
    run = server.run(RUN)
    run.report(0)
    recorder.wait_for(lambda: recorder.batches() == [0])
    stream = stream_of(engine, session)
    wait_for(stream.is_streaming)
    poll = stream._poll

    def poll_after_the_stream(*arguments):
        if stream.is_streaming():
            server.send("progress", '{"progress":' + run.report(3) + "}")
            recorder.wait_for(lambda: 3 in recorder.batches())
            poll(*arguments)

    monkeypatch.setattr(stream, "_poll", poll_after_the_stream)
    run.report(1), run.report(2)
    stream._call.cancel()
    recorder.wait_for(lambda: sorted(recorder.batches()) == [0, 1, 2, 3])


def test_stream_that_a_busy_server_opens_late_is_read(server, session, recorder, monkeypatch):
    monkeypatch.setattr(events, "STREAM_START_SECONDS", 0.05)
    server.added_after.clear()
    engine = ConnectEngine()
    remove = engine.listen(session, recorder)
    run = server.run(RUN)
    run.report(0)
    recorder.wait_for(lambda: recorder.batches() == [0])  # polled meanwhile
    assert not stream_of(engine, session).is_streaming()
    server.added_after.set()
    wait_for(stream_of(engine, session).is_streaming)
    remove()


def test_polling_replaces_a_stream_held_by_another_client(server, session, recorder, engine):
    other = server.session()
    theirs = ConnectEngine()
    wait_for(lambda: server.stream is not None)
    first, their_recorder = server.stream, Recorder()
    off = theirs.listen(other, their_recorder)
    server.run(OTHER).report(0)
    their_recorder.wait_for(lambda: their_recorder.batches(OTHER) == [0])
    assert server.stream is first
    off()
    assert server.stream is first


def test_outage_and_recovery_are_logged_once_each(engine, server, recorder, caplog):
    server.run(RUN).report(0)
    recorder.wait_for(lambda: recorder.batches() == [0])
    server.is_away = True
    wait_for(lambda: caplog.records)
    server.runs[RUN].report(1)
    server.is_away = False
    recorder.wait_for(lambda: recorder.batches() == [0, 1])
    assert ["away" in record.message for record in caplog.records] == [True, False]


def test_gone_session_ends_its_runs_and_threads(engine, server, recorder, caplog):
    server.run(RUN)
    recorder.wait_for(lambda: recorder.of("started"))
    server.is_gone = True
    recorder.wait_for(lambda: recorder.of("terminated"))
    assert "has restarted" in recorder.of("terminated")[0]["exception"]
    wait_for(lambda: not [t for t in threading.enumerate() if t.name == "controlplane-connect-watch"])
    assert len([record for record in caplog.records if "session is gone" in record.message]) == 1


def test_programs_start_is_reported_at_once(engine, session, server, recorder):
    stream_of(engine, session).run_started("11111111-1111-4111-8111-111111111111", RUN, "orders")
    assert [(s["runId"], s["name"]) for s in recorder.of("started")] == [(RUN, "orders")]


def test_removing_the_listener_polls_once_more_and_frees_the_stream(session, server, recorder, quick):
    engine = ConnectEngine()
    off = engine.listen(session, recorder)
    run = server.run(RUN)
    recorder.wait_for(lambda: recorder.of("started"))
    wait_for(lambda: server.stream is not None)
    run.report(0)
    run.active = False
    off()
    assert recorder.batches() == [0] and recorder.of("terminated") and server.stream is None
    assert not engine._streams


# -- the program's own listeners -------------------------------------------------------------------


def own_listener():
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Own(StreamingQueryListener):
        def __init__(self):
            self.ended = threading.Event()

        def onQueryStarted(self, event): ...

        def onQueryProgress(self, event): ...

        def onQueryIdle(self, event): ...

        def onQueryTerminated(self, event):
            self.ended.set()

    return Own()


def end_of(run, error=None):
    return json.dumps(
        {"id": run.query_id, "runId": run.run_id, "exception": error, "errorClassOnException": None}
    )


def test_program_gets_the_stream_and_the_agent_joins_its_listeners(engine, session, server, recorder):
    wait_for(lambda: server.stream is not None)
    first, own, run = server.stream, own_listener(), server.run(RUN)
    session.streams.addListener(own)
    assert server.stream is not first and not stream_of(engine, session).is_streaming()
    server.send("terminated", end_of(run, "boom"))
    assert own.ended.wait(20)
    recorder.wait_for(lambda: recorder.of("terminated"))
    assert recorder.of("terminated")[0]["exception"] == "boom"
    second = server.stream
    session.streams.removeListener(own)
    wait_for(lambda: server.stream not in (None, second) and stream_of(engine, session).is_streaming())


def test_earlier_listeners_keep_the_stream(session, server, recorder, quick):
    own, engine = own_listener(), ConnectEngine()
    session.streams.addListener(own)
    first = server.stream
    off = engine.listen(session, recorder)
    wait_for(lambda: len(session.streams._sqlb._listener_bus) == 2)
    off()
    assert session.streams._sqlb._listener_bus == [own] and server.stream is first
    session.streams.removeListener(own)


def test_agent_opens_the_stream_after_pyspark_dropped_all_listeners(engine, session, server, recorder):
    session.streams.addListener(own_listener())
    first = server.stream
    with session.streams._sqlb._lock:  # as PySpark does when its stream breaks
        session.streams._sqlb._listener_bus.clear()
        session.streams._sqlb._execution_thread = None
    wait_for(lambda: server.stream not in (None, first) and stream_of(engine, session).is_streaming())


def test_detaching_restores_pysparks_bus(session, recorder, quick):
    from pyspark.sql.connect.streaming.query import StreamingQueryListenerBus

    before = StreamingQueryListenerBus.append
    off = ConnectEngine().listen(session, recorder)
    assert StreamingQueryListenerBus.append is not before
    off()
    assert StreamingQueryListenerBus.append is before
