"""Hearing a Connect session over real gRPC: the stream, what stands in for it, and the program's listeners."""

import json
import threading

import pytest

from listeners.spark import guard
from listeners.spark.connect import events
from listeners.spark.connect.session import ConnectEngine
from tests.unit.listeners.fake_connect import FakeConnect

RUN, OTHER = "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"


class Recorder:
    """Takes events as `listeners.spark.listener.RawListener` does."""

    def __init__(self):
        self.events = []
        self._came = threading.Condition()

    def take(self, type, data, at=None):
        with self._came:
            self.events.append((type, json.loads(data), at))
            self._came.notify_all()

    def wait_for(self, condition, timeout=20.0):
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
def heard():
    return Recorder()


@pytest.fixture
def engine(session, heard):
    made = ConnectEngine()
    made.off = made.listen(session, heard)
    yield made
    made.off()


def hearing(engine, session):
    return engine._streams[engine.key(session)]


def test_an_error_that_comes_back_each_round_is_one_line(quick, monkeypatch, caplog):
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


def test_what_the_stream_brings_is_handed_on_once(engine, session, server, heard):
    run = server.run(RUN, "orders")
    wait_for(lambda: server.stream is not None)
    server.send("progress", '{"progress":' + run.report(0) + "}")
    server.send("idle", json.dumps({"id": run.query_id, "runId": RUN, "timestamp": "t"}))
    heard.wait_for(lambda: heard.of("idle"))
    assert heard.batches() == [0] and [s["name"] for s in heard.of("started")] == ["orders"]


def test_what_the_stream_did_not_bring_is_found_in_sparks_memory(engine, session, server, heard):
    run = server.run(RUN)
    for batch in range(3):
        run.report(batch)
    heard.wait_for(lambda: heard.batches() == [0, 1, 2])


def test_a_run_that_vanishes_without_a_word_is_told_as_ended_with_its_failure(engine, server, heard):
    run = server.run(RUN)
    heard.wait_for(lambda: heard.of("started"))
    run.failure, run.active = "StreamingQueryException: boom", False
    run.report(7)
    heard.wait_for(lambda: heard.of("terminated"))
    assert heard.of("terminated")[0]["exception"] == run.failure and heard.batches() == [7]


def test_a_broken_stream_is_opened_again_and_its_listener_in_the_server_replaced(
    engine, session, server, heard
):
    wait_for(hearing(engine, session).is_streaming)
    first = server.stream
    hearing(engine, session)._call.cancel()
    wait_for(lambda: server.stream not in (None, first))
    wait_for(hearing(engine, session).is_streaming)
    server.send("progress", server.run(RUN).report(0))
    heard.wait_for(lambda: heard.batches() == [0])


def test_where_another_client_has_the_stream_polling_does_it_and_nobody_is_robbed(
    server, session, heard, engine
):
    other = server.session()
    theirs = ConnectEngine()
    wait_for(lambda: server.stream is not None)
    first, also = server.stream, Recorder()
    off = theirs.listen(other, also)
    server.run(OTHER).report(0)
    also.wait_for(lambda: also.batches(OTHER) == [0])
    assert server.stream is first
    off()
    assert server.stream is first


def test_a_server_that_answers_again_is_heard_again_and_both_are_said_once(engine, server, heard, caplog):
    server.run(RUN).report(0)
    heard.wait_for(lambda: heard.batches() == [0])
    server.is_away = True
    wait_for(lambda: caplog.records)
    server.runs[RUN].report(1)
    server.is_away = False
    heard.wait_for(lambda: heard.batches() == [0, 1])
    assert ["away" in record.message for record in caplog.records] == [True, False]


def test_when_the_session_is_gone_its_runs_are_told_as_ended_and_the_threads_end(
    engine, server, heard, caplog
):
    server.run(RUN)
    heard.wait_for(lambda: heard.of("started"))
    server.is_gone = True
    heard.wait_for(lambda: heard.of("terminated"))
    assert "has restarted" in heard.of("terminated")[0]["exception"]
    wait_for(lambda: not [t for t in threading.enumerate() if t.name == "controlplane-connect-watch"])
    assert len([record for record in caplog.records if "session is gone" in record.message]) == 1


def test_a_start_of_the_program_is_told_at_once(engine, session, server, heard):
    hearing(engine, session).run_started("11111111-1111-4111-8111-111111111111", RUN, "orders")
    assert [(s["runId"], s["name"]) for s in heard.of("started")] == [(RUN, "orders")]


def test_taking_the_listener_off_has_a_last_look_and_frees_the_stream(session, server, heard, quick):
    engine = ConnectEngine()
    off = engine.listen(session, heard)
    run = server.run(RUN)
    heard.wait_for(lambda: heard.of("started"))
    wait_for(lambda: server.stream is not None)
    run.report(0)
    run.active = False
    off()
    assert heard.batches() == [0] and heard.of("terminated") and server.stream is None
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


def test_the_program_gets_the_stream_and_we_hear_among_its_listeners(engine, session, server, heard):
    wait_for(lambda: server.stream is not None)
    first, own, run = server.stream, own_listener(), server.run(RUN)
    session.streams.addListener(own)
    assert server.stream is not first and not hearing(engine, session).is_streaming()
    server.send("terminated", end_of(run, "boom"))
    assert own.ended.wait(20)
    heard.wait_for(lambda: heard.of("terminated"))
    assert heard.of("terminated")[0]["exception"] == "boom"
    second = server.stream
    session.streams.removeListener(own)
    wait_for(lambda: server.stream not in (None, second) and hearing(engine, session).is_streaming())


def test_listeners_that_were_there_before_keep_the_stream(session, server, heard, quick):
    own, engine = own_listener(), ConnectEngine()
    session.streams.addListener(own)
    first = server.stream
    off = engine.listen(session, heard)
    wait_for(lambda: len(session.streams._sqlb._listener_bus) == 2)
    off()
    assert session.streams._sqlb._listener_bus == [own] and server.stream is first
    session.streams.removeListener(own)


def test_thrown_out_with_the_programs_listeners_we_take_the_stream_ourselves(engine, session, server, heard):
    session.streams.addListener(own_listener())
    first = server.stream
    with session.streams._sqlb._lock:  # as PySpark does when its stream breaks
        session.streams._sqlb._listener_bus.clear()
        session.streams._sqlb._execution_thread = None
    wait_for(lambda: server.stream not in (None, first) and hearing(engine, session).is_streaming())


def test_without_the_agent_pysparks_bus_is_as_it_was(session, heard, quick):
    from pyspark.sql.connect.streaming.query import StreamingQueryListenerBus

    before = StreamingQueryListenerBus.append
    off = ConnectEngine().listen(session, heard)
    assert StreamingQueryListenerBus.append is not before
    off()
    assert StreamingQueryListenerBus.append is before
