"""Connect runs and sessions, over real gRPC to a fake server."""

from types import SimpleNamespace

import pytest

from listeners.protocol.errors import ConnectError, RunUnknown, SessionGone
from listeners.spark.connect.session import ConnectEngine, ConnectRun
from tests.unit.listeners.fake_connect import FakeConnect

RUN = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def server():
    made = FakeConnect()
    yield made
    made.close()


@pytest.fixture
def session(server):
    made = server.session()
    yield made
    made.client.close()


def started_by(writer, interval=None):
    return SimpleNamespace(writer=writer, interval=interval)


def run_of(session, server, writer=None, name="orders"):
    run = server.runs.get(RUN) or server.run(RUN, name)
    return ConnectRun(session, run.query_id, RUN, name, started_by(writer) if writer is not None else None)


def writer_of(session, **options):
    from pyspark.sql.connect.plan import LogicalPlan
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

    return DataStreamWriter(LogicalPlan(None), session).format("noop").options(**options)


def test_run_reports_whether_it_is_active_and_over(session, server):
    run = run_of(session, server)
    assert run.is_active() and not run.is_over()
    run.stop()
    assert not run.is_active() and run.is_over() and server.stopped == [RUN]


def test_run_unknown_to_the_server_is_over(session, server):
    run = run_of(session, server)
    server.runs.clear()
    assert not run.is_active() and run.is_over()
    with pytest.raises(RunUnknown):
        run.status()


def test_gone_session_has_no_active_runs(session, server):
    run, engine = run_of(session, server), ConnectEngine()
    server.is_gone = True
    assert engine.active(session) == [] and not run.is_active() and run.is_over()
    with pytest.raises(SessionGone, match="has restarted"):
        run.status()


def test_unreachable_server_is_not_an_end(session, server):
    run, engine = run_of(session, server), ConnectEngine()
    server.close()
    for ask in (run.is_active, run.status, lambda: engine.active(session)):
        with pytest.raises(ConnectError) as raised:
            ask()
        assert raised.value.retryable
    assert run.batches_on_record() == (None, None)


def test_server_that_is_away_or_silent_is_an_outage_and_an_answer_is_not(session, server):
    engine = ConnectEngine()

    def outage():
        with pytest.raises(ConnectError) as raised:
            engine.active(session)
        return engine.outage(raised.value)

    server.is_away = True
    assert outage().cause == "server_away" and not outage().certain
    assert engine.outage(ConnectError("late", "no_answer")).cause == "no_answer"
    assert engine.outage(RunUnknown("unknown")) is None and engine.outage(None) is None


def test_newest_report_gives_the_committed_batch(session, server):
    run = run_of(session, server)
    assert run.batches_on_record() == (None, None)
    server.runs[RUN].report(0, is_idle=True)
    assert run.batches_on_record() == (None, None)
    server.runs[RUN].report(3)
    server.runs[RUN].report(4)
    assert run.batches_on_record() == (None, 4)
    server.runs[RUN].report(5, is_idle=True)
    assert run.batches_on_record() == (None, 4)


def test_checkpoint_is_the_writers_location(session, server):
    run = run_of(session, server, writer_of(session, checkpointLocation="/ck/orders"))
    assert (run.checkpoint(), run.facts()["checkpointIsTemporary"]) == ("/ck/orders", False)


def test_default_checkpoint_is_the_sessions_location_plus_the_name(session, server):
    server.confs["spark.sql.streaming.checkpointLocation"] = "/all/"
    assert run_of(session, server, writer_of(session)).checkpoint() == "/all/orders"
    assert run_of(session, server, writer_of(session), name=None).checkpoint() is None


def test_checkpoint_made_up_by_spark_is_temporary_without_location(session, server):
    facts = run_of(session, server, writer_of(session)).facts()
    assert (facts["checkpoint"], facts["checkpointIsTemporary"]) == (None, True)


def test_facts_are_those_of_the_start_even_if_the_writer_changes(session, server):
    writer = writer_of(session, checkpointLocation="/ck/one")
    run = run_of(session, server, writer)
    writer.option("checkpointLocation", "/ck/two")
    assert run.checkpoint() == "/ck/one"


def test_run_with_unseen_start_has_no_facts(session, server):
    run = run_of(session, server)
    assert run.facts() == {} and run.checkpoint() is None and run.shape(None) is None


def test_application_comes_from_the_servers_settings(session):
    assert ConnectEngine().app(session) == {
        "name": "fake",
        "id": "local-1",
        "spark_version": "4.3.0",
        "master": "local[1]",
        "ui_url": None,
    }


def test_clients_of_one_session_share_a_key(session, server):
    from pyspark.sql.connect.session import SparkSession

    engine = ConnectEngine()
    url = f"sc://127.0.0.1:{server.port}"
    twin = SparkSession.builder.remote(f"{url}/;session_id={session.session_id}").create()
    assert engine.key(twin) == engine.key(session) == engine.key_of(session.streams)
    assert engine.key(SparkSession.builder.remote(url).create()) != engine.key(session)


def test_handle_can_stand_for_a_later_run(session, server):
    from pyspark.sql.connect.streaming.query import StreamingQuery

    engine, later = ConnectEngine(), RUN.replace("2222", "3333", 1)
    handle = StreamingQuery(session, "11111111-1111-4111-8111-111111111111", RUN, "orders")
    engine.rebind(handle, ConnectRun(session, handle.id, later, "orders"))
    assert handle.runId == engine.run_id(handle) == engine.run(handle).run_id == later


def test_only_a_query_failure_is_not_an_outage():
    from pyspark.errors.exceptions.connect import SparkConnectException, StreamingQueryException

    engine = ConnectEngine()
    assert engine.is_outage(SparkConnectException("no connection"))
    assert not engine.is_outage(StreamingQueryException("failed"))


def test_run_reports_the_overridden_interval(session, server):
    writer = writer_of(session).trigger(processingTime="1 second")
    run = server.run(RUN)
    made = ConnectRun(session, run.query_id, RUN, None, started_by(writer, 60.0))
    assert made.facts()["triggerInterval"] == 60.0
    assert run_of(session, server, writer).facts()["triggerInterval"] == 1.0


def test_only_a_final_answer_is_a_permanent_outage(session, server):
    run, engine = run_of(session, server), ConnectEngine()
    assert engine.permanent_outage(run) is None
    server.is_away = True
    assert engine.permanent_outage(run) is None
    server.is_away, server.is_gone = False, True
    assert isinstance(engine.permanent_outage(run), SessionGone)
    server.is_gone = False
    server.runs.clear()
    assert isinstance(engine.permanent_outage(run), RunUnknown)
