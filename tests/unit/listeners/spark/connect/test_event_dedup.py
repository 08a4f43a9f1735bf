"""Deduplication of a Connect session's events, whichever way they arrive."""

import json

import pytest

from listeners.spark.connect.event_dedup import MAX_ENDED, EventDeduplicator, report_key, report_time

QUERY, RUN = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def progress(
    batch_id, run=RUN, name="orders", separators=(",", ":"), phases=("addBatch", "triggerExecution")
):
    fields = {"id": QUERY, "runId": run, "name": name, "timestamp": f"2026-01-01T00:00:{batch_id:02d}.000Z"}
    durations = {"batchDuration": 500, "durationMs": dict.fromkeys(phases, 500)}
    return json.dumps({**fields, "batchId": batch_id, **durations}, separators=separators)


def idle_report(next_batch):
    return progress(next_batch, phases=("latestOffset", "triggerExecution"))


def ended(run=RUN):
    return json.dumps({"id": QUERY, "runId": run, "exception": None}, separators=(",", ":"))


def types(events):
    return [event.type for event in events]


@pytest.fixture
def dedup():
    return EventDeduplicator(clock=lambda: 1_767_225_700.0)  # 2026-01-01T00:01:40Z


def test_unknown_run_gets_a_start_before_its_first_event(dedup):
    started, report = dedup.admit("progress", progress(0))
    document = json.loads(started.data)
    assert (started.type, document["id"], document["runId"]) == ("started", QUERY, RUN)
    assert (document["name"], document["timestamp"]) == ("orders", "2026-01-01T00:01:40.000Z")
    assert report.data == progress(0)


def test_report_is_passed_on_once_from_stream_bus_and_memory(dedup):
    assert types(dedup.admit("progress", '{"progress":' + progress(3) + "}")) == ["started", "progress"]
    assert dedup.admit("progress", progress(3), late=True) == []
    assert dedup.admit("progress", progress(3, separators=(", ", ": "))) == []
    assert types(dedup.admit("progress", progress(4))) == ["progress"]


def test_same_batch_of_another_run_is_another_report(dedup):
    dedup.admit("progress", progress(3))
    other = RUN.replace("2222", "3333", 1)
    assert types(dedup.admit("progress", progress(3, run=other))) == ["started", "progress"]


def test_report_from_memory_has_its_own_time(dedup):
    assert dedup.admit("progress", progress(9), late=True)[-1].at == 1_767_225_609.5
    assert dedup.admit("progress", progress(10))[-1].at is None


def test_report_of_an_idle_trigger_in_memory_is_no_batch_and_passed_on_once(dedup):
    dedup.admit("progress", progress(0))
    (idle,) = dedup.admit("progress", idle_report(1), late=True)
    fields = {"id": QUERY, "runId": RUN, "timestamp": "2026-01-01T00:00:01.000Z"}
    assert (idle.type, json.loads(idle.data), idle.at) == ("idle", fields, 1_767_225_601.5)
    assert dedup.admit("progress", idle_report(1), late=True) == dedup.admit("idle", idle.data) == []
    dedup.admit("idle", json.dumps({**fields, "timestamp": "2026-01-01T00:00:02.000Z"}))
    assert dedup.admit("progress", idle_report(2), late=True) == []
    assert types(dedup.admit("progress", progress(3))) == ["progress"]


def test_end_is_held_until_the_reports_before_it_are_read(dedup):
    _, end = dedup.admit("terminated", ended())
    (run,) = dedup._runs.values()
    assert dedup.hold_end(end, listening_number=1) and dedup.open_runs() == [run]
    assert dedup.ended(RUN, "disappeared", None) == []
    assert dedup.release_end(run) == [end] and dedup.release_end(run) == dedup.open_runs() == []
    run.listening_number = 1
    assert not dedup.hold_end(end, listening_number=1)


@pytest.mark.parametrize("timestamp", ["2026-01-01T00:09:00.000Z", "yesterday", None])
def test_report_is_never_from_the_future_nor_without_a_time(timestamp):
    assert (
        report_time(json.dumps({"timestamp": timestamp, "batchDuration": 500}), 1_767_225_700.0)
        == 1_767_225_700.0
    )


def test_pysparks_own_start_event_is_passed_on_once(dedup):
    started = json.dumps({"id": QUERY, "runId": RUN, "name": 'a "b"', "timestamp": "t"})
    assert [event.data for event in dedup.admit("started", started)] == [started]
    assert dedup.admit("started", started) == dedup.run_started(QUERY, RUN, "x") == []


def test_end_is_passed_on_once_from_spark_or_generated(dedup):
    assert types(dedup.admit("terminated", ended())) == ["started", "terminated"]
    assert dedup.admit("terminated", ended()) == dedup.ended(RUN, "late", None) == []
    other = RUN.replace("2222", "3333", 1)
    dedup.run_started(QUERY, other, None)
    (made,) = dedup.ended(other, "gone", "SOME_CLASS")
    assert json.loads(made.data) == {
        "id": QUERY,
        "runId": other,
        "exception": "gone",
        "errorClassOnException": "SOME_CLASS",
    }
    assert dedup.admit("terminated", ended(other)) == [] and dedup.open_runs() == []


def test_ended_runs_are_remembered_up_to_a_limit(dedup):
    for number in range(MAX_ENDED + 10):
        run = f"{number:08d}-2222-4222-8222-222222222222"
        dedup.run_started(QUERY, run, None)
        dedup.ended(run, None, None)
    assert types(dedup.run_started(QUERY, f"{MAX_ENDED + 9:08d}-2222-4222-8222-222222222222", None)) == []
    assert types(dedup.run_started(QUERY, "00000000-2222-4222-8222-222222222222", None)) == ["started"]


def test_event_without_a_run_is_ignored(dedup):
    assert dedup.admit("idle", '{"something":"else"}') == []


def test_report_with_fields_in_another_order_is_recognized():
    assert report_key('{"batchId":7,"x":1,"timestamp":"t"}') == (7, "t")
