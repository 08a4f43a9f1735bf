"""What events make of agents, queries and runs, without a database."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.events import lifecycle, run_resolution
from controlplane.events.parsing import parse
from controlplane.events.run_resolution import outlives_agent
from controlplane.model import RunEnd
from controlplane.records import UnitOfWork
from listeners.protocol import wire
from tests.drivers import BEGIN, Driver

NOW = BEGIN + 1000


def tell(ledger: UnitOfWork, *lines: bytes, now: float = NOW) -> UnitOfWork:
    events = [wire.decode_event(line) for line in lines]
    lifecycle.record_agents(ledger, events, {})
    lifecycle.apply_events(ledger, [parse(event) for event in events], now)
    return ledger


def reported(*lines: bytes, now: float = NOW) -> UnitOfWork:
    return tell(UnitOfWork(), *lines, now=now)


def listed(query_id: str, run_id: str, **more: object) -> dict[str, object]:
    return {"id": query_id, "runId": run_id, "name": "orders", "message": "Processing new data", **more}


def end_of(ledger: UnitOfWork, run_id: str) -> tuple[RunEnd | None, float | None]:
    run = ledger.runs[run_id].run
    return run.end, run.ended_at


# -- ends ------------------------------------------------------------------------------------------


def test_a_run_that_terminates_without_an_exception_was_stopped() -> None:
    driver = Driver()
    assert end_of(reported(driver.started("q", "r"), driver.terminated("q", "r")), "r") == (
        RunEnd.STOPPED,
        BEGIN + 2,
    )


def test_a_run_whose_start_names_a_trigger_that_ends_has_finished() -> None:
    """A flow of a pipeline: no status lists it if it ends within seconds."""
    driver, flow = (
        Driver(),
        {"id": "q", "runId": "r", "name": "copied", "facts": {"trigger": "available_now"}},
    )
    assert (
        end_of(reported(driver.line("started", flow), driver.terminated("q", "r")), "r")[0] is RunEnd.FINISHED
    )
    failed = driver.terminated("q", "r", exception="boom")
    assert end_of(reported(driver.line("started", flow), failed), "r")[0] is RunEnd.FAILED


def test_a_run_that_terminates_with_an_exception_failed() -> None:
    driver = Driver()
    ledger = reported(driver.started("q", "r"), driver.terminated("q", "r", exception="boom"))
    assert end_of(ledger, "r") == (RunEnd.FAILED, BEGIN + 2)
    assert ledger.runs["r"].run.failure_text == "boom"
    assert ledger.queries["q"].totals["failures|unknown"] == 1


@pytest.mark.parametrize("trigger", ["available_now", "once"])
@pytest.mark.parametrize("late", [False, True])
def test_a_run_that_was_to_end_by_itself_is_finished_whenever_its_trigger_is_reported(
    trigger: str, late: bool
) -> None:
    driver = Driver()
    status = driver.status(listed("q", "r", facts={"trigger": trigger}))
    end = driver.terminated("q", "r")
    ledger = reported(*((end, status) if late else (status, end)))
    assert end_of(ledger, "r")[0] == RunEnd.FINISHED


def test_the_end_of_the_program_ends_its_runs() -> None:
    driver = Driver()
    ledger = reported(driver.started("q", "r"), driver.line("app_ended", {"reason": "exit"}))
    assert end_of(ledger, "r") == (RunEnd.STOPPED, BEGIN + 2)


def test_a_program_that_died_of_an_exception_takes_its_runs_with_it() -> None:
    driver = Driver()
    ledger = reported(
        driver.started("q", "r"),
        driver.line("app_ended", {"reason": "exception", "exception": "KeyError: 5"}),
    )
    assert end_of(ledger, "r")[0] == RunEnd.FAILED
    assert ledger.runs["r"].run.failure_text == "KeyError: 5"


def test_the_end_that_spark_reports_outranks_the_end_of_the_program() -> None:
    driver = Driver()
    lines = (
        driver.started("q", "r"),
        driver.terminated("q", "r", exception="boom"),
        driver.line("app_ended", {"reason": "exception", "exception": "boom, too"}),
    )
    for order in (lines, lines[::-1]):
        ledger = reported(*order)
        assert end_of(ledger, "r") == (RunEnd.FAILED, BEGIN + 2)
        assert ledger.queries["q"].totals["failures|unknown"] == 1


def test_end_of_the_jvm_is_the_failure_and_not_the_exception_that_follows_from_it() -> None:
    driver = Driver()
    refused = "py4j.protocol.Py4JNetworkError: [Errno 111] Connection refused"
    ledger = reported(
        driver.started("q", "r"), driver.line("app_ended", {"reason": "jvm_exited", "exception": refused})
    )
    assert end_of(ledger, "r") == (RunEnd.FAILED, BEGIN + 2)
    assert ledger.runs["r"].run.failure_text == "The driver's JVM has ended."
    assert ledger.queries["q"].totals["failures|driver-gone"] == 1


@pytest.mark.parametrize("reason", ["sigterm", "sigint"])
def test_query_that_a_signal_to_the_driver_failed_was_stopped(reason: str) -> None:
    driver = Driver()
    cancelled = driver.started("q", "r"), driver.terminated("q", "r", exception="Job 3 cancelled")
    ledger = reported(*cancelled)
    tell(ledger, driver.line("app_ended", {"reason": reason, "exception": None}))
    assert end_of(ledger, "r") == (RunEnd.STOPPED, BEGIN + 2)


def test_query_that_failed_for_good_just_before_the_signal_stays_failed() -> None:
    driver = Driver()
    missing = "[TABLE_OR_VIEW_NOT_FOUND] The table `orders` cannot be found."
    ledger = reported(driver.started("q", "r"), driver.terminated("q", "r", exception=missing))
    tell(ledger, driver.line("app_ended", {"reason": "sigterm", "exception": None}))
    assert end_of(ledger, "r")[0] == RunEnd.FAILED


def test_query_whose_failure_led_to_the_signal_stays_failed() -> None:
    driver = Driver()
    ledger = reported(driver.started("q", "r"), driver.terminated("q", "r", exception="boom"))
    tell(ledger, driver.line("app_ended", {"reason": "sigterm", "exception": None}, at=BEGIN + 30))
    assert end_of(ledger, "r")[0] == RunEnd.FAILED


def test_a_failure_that_was_counted_stays_counted_when_its_end_is_taken_back() -> None:
    """A counter that falls looks like a restart of it to PromQL, and counts everything again."""
    driver = Driver()
    ledger = reported(
        driver.started("q", "r"),
        driver.line("app_ended", {"reason": "exception", "exception": "KeyError: 5"}),
    )
    assert ledger.queries["q"].totals["failures|unknown"] == 1
    tell(ledger, driver.progress("q", "r", 1, at=BEGIN + 100))
    assert end_of(ledger, "r") == (None, None)
    assert ledger.queries["q"].totals["failures|unknown"] == 1


@pytest.mark.parametrize("later", [None, "[DIVIDE_BY_ZERO] by nought"])
def test_a_failure_is_counted_once_as_it_was_first_known(later: str | None) -> None:
    driver = Driver()
    ledger = reported(
        driver.started("q", "r"),
        driver.line("app_ended", {"reason": "exception", "exception": "KeyError: 5"}),
    )
    tell(ledger, driver.terminated("q", "r", exception=later))
    assert ledger.runs["r"].run.failure_text == later
    assert ledger.queries["q"].totals == {"starts": 1, "failures|unknown": 1}


def test_two_text_of_spark_on_one_end_are_one_failure() -> None:
    item, two = Driver(), Driver()
    ends = [item.terminated("q", "r", exception="boom"), two.terminated("q", "r", exception="boom")]
    for order in (ends, ends[::-1]):
        ledger = reported(item.started("q", "r", at=BEGIN))
        for line in order:
            tell(ledger, line)
        assert ledger.queries["q"].totals["failures|unknown"] == 1


def test_lifecycle_after_the_end_of_a_session_takes_its_end_back() -> None:
    driver = Driver()
    ledger = reported(driver.started("q", "r"), driver.line("app_ended", {"reason": "session_stopped"}))
    tell(ledger, driver.started("q", "r2"))
    assert ledger.agents[driver.agent].agent.ended_at is None
    assert end_of(ledger, "r2") == (None, None)
    assert end_of(ledger, "r") == (RunEnd.STOPPED, BEGIN + 2)


def test_a_run_whose_silent_driver_was_replaced_is_lost() -> None:
    old, new = Driver(), Driver()
    ledger = reported(old.started("q", "r1"), old.progress("q", "r1", 0))
    tell(ledger, new.started("q", "r2", at=BEGIN + 100), now=BEGIN + 100)
    assert end_of(ledger, "r1") == (RunEnd.LOST, BEGIN + 2)
    assert ledger.queries["q"].newest_run == "r2"
    assert ledger.queries["q"].totals["failures|lost"] == 1


def test_a_run_counts_as_lost_and_again_when_its_own_failure_is_received_later() -> None:
    old, new = Driver(), Driver()
    ledger = reported(old.started("q", "r1"), new.started("q", "r2", at=BEGIN + 100), now=BEGIN + 100)
    tell(ledger, old.terminated("q", "r1", exception="boom", at=BEGIN + 50), now=BEGIN + 101)
    assert end_of(ledger, "r1")[0] == RunEnd.FAILED
    assert ledger.queries["q"].totals == {"starts": 2, "failures|lost": 1, "failures|unknown": 1}


def test_what_a_killed_driver_left_to_be_reported_later_does_not_make_it_lost_twice() -> None:
    old, new = Driver(), Driver()
    ledger = reported(old.started("q", "r1"), new.started("q", "r2", at=BEGIN + 100), now=BEGIN + 100)
    for number in range(3):
        tell(ledger, old.progress("q", "r1", number, at=BEGIN + 10 + number), now=BEGIN + 101 + number)
        assert end_of(ledger, "r1") == (RunEnd.LOST, BEGIN + 10 + number)
    assert failures(ledger) == ledger.queries["q"].totals["failures|lost"] == 1


def test_a_driver_that_ended_in_good_order_before_the_next_is_no_failure() -> None:
    old, new = Driver(), Driver()
    ledger = reported(
        old.started("q", "r1"),
        old.line("app_ended", {"reason": "exit"}),
        new.started("q", "r2", at=BEGIN + 100),
    )
    assert end_of(ledger, "r1")[0] == RunEnd.STOPPED
    assert ledger.queries["q"].totals == {"starts": 2}


def test_a_driver_whose_end_seems_to_be_before_its_last_batch_ended_in_good_order() -> None:
    """A server that restarts has to find out again that the driver's clock is 42 s behind."""
    old, new = Driver(), Driver()
    ledger = reported(
        old.started("q", "r1"),
        old.progress("q", "r1", 0, at=BEGIN + 50),
        old.line("app_ended", {"reason": "exit"}, at=BEGIN + 8),
        new.started("q", "r2", at=BEGIN + 200),
        now=BEGIN + 200,
    )
    assert end_of(ledger, "r1") == (RunEnd.STOPPED, BEGIN + 50)
    assert "failures|lost" not in ledger.queries["q"].totals


def test_a_run_belongs_to_the_agent_that_reports_it_after_its_own_has_ended() -> None:
    """`detach` and `attach` in one process; or two clients of a Spark Connect session, of which the first ends."""
    first, second = Driver(), Driver()
    ledger = reported(first.started("q", "r"), second.status(listed("q", "r"), at=BEGIN + 5))
    assert ledger.runs["r"].run.agent == first.agent
    tell(ledger, first.line("app_ended", {"reason": "exit"}, BEGIN + 50))
    assert end_of(ledger, "r") == (RunEnd.STOPPED, BEGIN + 50)
    tell(ledger, second.status(listed("q", "r"), at=BEGIN + 60), second.progress("q", "r", 1, at=BEGIN + 61))
    assert (ledger.runs["r"].run.agent, *end_of(ledger, "r")) == (second.agent, None, None)
    tell(ledger, second.line("app_ended", {"reason": "exit"}, BEGIN + 70))
    assert end_of(ledger, "r") == (RunEnd.STOPPED, BEGIN + 70)
    assert ledger.queries["q"].totals["starts"] == 1


@pytest.mark.parametrize(("listed_at_end", "end"), [(["r"], None), ([], RunEnd.STOPPED)])
def test_a_run_that_its_agent_lists_at_its_end_goes_on(listed_at_end: list[str], end: RunEnd | None) -> None:
    client, started_again = Driver(), Driver()
    data = {"reason": "sigterm", "exception": None, "activeRuns": listed_at_end}
    ledger = reported(client.started("q", "r"), client.line("app_ended", data, BEGIN + 50))
    assert end_of(ledger, "r")[0] is end
    assert outlives_agent(ledger.agents[client.agent], "r") == (end is None)
    tell(ledger, started_again.started("q", "r2", at=BEGIN + 500), now=BEGIN + 500)
    assert ledger.queries["q"].newest_run == "r2"
    assert end_of(ledger, "r")[0] is (end or RunEnd.LOST)
    assert failures(ledger) == 0


def test_the_silence_of_a_driver_while_the_server_was_down_is_not_its_end() -> None:
    old, new, ledger = Driver(), Driver(), UnitOfWork()
    tell(ledger, old.started("q", "r1"))
    event = wire.decode_event(new.started("q", "r2", at=BEGIN + 600))
    lifecycle.record_agents(ledger, [event], {})
    lifecycle.apply_events(ledger, [parse(event)], BEGIN + 600, listening_since=BEGIN + 599)
    assert end_of(ledger, "r1") == (None, None)
    lifecycle.apply_events(ledger, [parse(event)], BEGIN + 700, listening_since=BEGIN + 599)
    assert end_of(ledger, "r1")[0] is RunEnd.LOST


def test_two_drivers_that_both_speak_stay_visible() -> None:
    old, new = Driver(), Driver()
    ledger = reported(old.started("q", "r1"), new.started("q", "r2", at=BEGIN + 5), now=BEGIN + 6)
    assert end_of(ledger, "r1") == (None, None)
    tell(ledger, new.progress("q", "r2", 0, at=BEGIN + 95), now=BEGIN + 95)  # the old one has fallen silent
    assert end_of(ledger, "r1")[0] == RunEnd.LOST


def test_a_lost_run_that_speaks_again_lives() -> None:
    old, new = Driver(), Driver()
    ledger = reported(old.started("q", "r1"), new.started("q", "r2", at=BEGIN + 100), now=BEGIN + 100)
    assert end_of(ledger, "r1")[0] == RunEnd.LOST
    tell(ledger, old.progress("q", "r1", 5, at=BEGIN + 101), now=BEGIN + 101)
    assert end_of(ledger, "r1") == (None, None)


def test_a_driver_never_runs_a_query_twice_at_a_time() -> None:
    driver = Driver()
    ledger = reported(driver.started("q", "r1"), driver.started("q", "r2"), now=BEGIN + 3)
    assert end_of(ledger, "r1")[0] == RunEnd.LOST
    tell(ledger, driver.terminated("q", "r1", at=BEGIN + 1.5))
    assert end_of(ledger, "r1") == (RunEnd.STOPPED, BEGIN + 1.5)
    assert ledger.queries["q"].totals == {"starts": 2}


# -- queries ---------------------------------------------------------------------------------------


def test_sequence_numbers_order_the_runs_of_a_driver_whatever_their_corrected_times_are() -> None:
    """The first request took 43 s, so its events were taken for later than they were."""
    driver = Driver()
    first = [driver.started("q", "r1", at=BEGIN + 43), driver.terminated("q", "r1", at=BEGIN + 44)]
    ledger = reported(*first, driver.started("q", "r2", at=BEGIN + 10))
    assert ledger.queries["q"].newest_run == "r2"
    assert end_of(ledger, "r2") == (None, None)


def test_a_run_belongs_to_the_agent_that_reported_it_first() -> None:
    starter, listener = Driver(), Driver()
    lines = (starter.started("q", "r", at=BEGIN), listener.progress("q", "r", 0, at=BEGIN + 1))
    for order in (lines, lines[::-1]):
        assert reported(*order).runs["r"].run.agent == starter.agent


def test_a_query_is_known_from_its_progress_alone() -> None:
    ledger = reported(Driver(labels={"team": "data"}).progress("q", "r", 4))
    query = ledger.queries["q"]
    assert (query.app, query.name, query.labels, query.newest_run) == (
        "shop",
        "orders",
        {"team": "data"},
        "r",
    )


def test_the_newest_event_reports_the_name() -> None:
    driver = Driver()
    old, new = driver.started("q", "r0", name="old"), driver.started("q", "r", name="new")
    ledger = reported(new, old)
    assert ledger.queries["q"].name == "new"


def test_what_a_query_is_called_is_the_word_of_its_newest_run_s_agent() -> None:
    prod, staging = (
        Driver(app="prod", labels={"env": "prod"}),
        Driver(app="staging", labels={"env": "staging"}),
    )
    lines = [
        prod.started("q", "r1", at=BEGIN),
        staging.started("q", "r2", name="orders, staged", at=BEGIN + 10),
        prod.status(listed("q", "r1"), at=BEGIN + 20),
        prod.progress("q", "r1", 5, at=BEGIN + 21),
        prod.line("start_failed", {"id": "q", "name": "orders", "exception": "x"}, at=BEGIN + 22),
        prod.progress("q", "r2", 0, name="overheard", at=BEGIN + 23),
    ]
    for order in itertools.permutations(lines):
        ledger = UnitOfWork()
        for line in order:
            tell(ledger, line, now=BEGIN + 25)
        query = ledger.queries["q"]
        assert (query.app, query.name, query.labels) == ("staging", "orders, staged", {"env": "staging"})
        assert ledger.agents[ledger.runs["r2"].run.agent].agent.app == query.app


def test_facts_of_a_run_that_had_ended_by_then_decide_how_it_ended_and_are_no_sign_of_lifecycle() -> None:
    driver = Driver()
    facts = driver.status(listed("q", "r", active=False, facts={"trigger": "available_now"}), at=BEGIN + 9)
    lines = [driver.started("q", "r", at=BEGIN), driver.terminated("q", "r", at=BEGIN + 1), facts]
    for order in itertools.permutations(lines):
        ledger = UnitOfWork()
        for line in order:
            tell(ledger, line)
        row = ledger.runs["r"]
        assert (row.run.end, row.run.ended_at) == (RunEnd.FINISHED, BEGIN + 1)
        assert (row.status, row.facts.trigger) == (None, "available_now")


def test_facts_of_a_run_that_had_ended_do_not_bring_a_lost_one_back() -> None:
    old, new = Driver(), Driver()
    ledger = reported(old.started("q", "r1"), new.started("q", "r2", at=BEGIN + 100), now=BEGIN + 100)
    entry = listed("q", "r1", active=False, facts={"trigger": "once"})
    tell(ledger, old.status(entry, at=BEGIN + 101), now=BEGIN + 200)
    assert end_of(ledger, "r1")[0] == RunEnd.LOST


def test_a_query_without_a_name_is_fine() -> None:
    assert reported(Driver().started("q", "r", name=None)).queries["q"].name is None


def test_idle_reports_of_old_sparks_are_idle_events() -> None:
    driver = Driver()
    idle = {"numInputRows": 0, "durationMs": {"latestOffset": 1, "triggerExecution": 1}}
    ledger = reported(driver.progress("q", "r", 4), driver.progress("q", "r", 4, **idle))
    assert ledger.runs["r"].run.batches == 1
    assert ledger.runs["r"].idle_at == BEGIN + 2


def test_polls_bring_status_facts_and_the_time_of_the_poll() -> None:
    driver = Driver()
    ledger = reported(
        driver.status(listed("q", "r", facts={"checkpoint": "/c", "trigger": "processing_time"})),
        driver.status(listed("q", "r", message="Waiting for data to arrive", isTriggerActive=True)),
    )
    row = ledger.runs["r"]
    assert row.status is not None
    assert (row.status.message, row.facts.checkpoint) == ("Waiting for data to arrive", "/c")
    assert ledger.agents[driver.agent].polls == (BEGIN + 1,)


def test_the_times_in_a_status_are_corrected_like_that_of_the_event() -> None:
    driver, slow = Driver(), 600.0  # the agent's clock is ten minutes behind
    entry = listed("q", "r", at=BEGIN - slow, lastTaskAt=BEGIN - slow + 1, tasksSince=BEGIN - slow + 2)
    event = wire.decode_event(driver.line("status", {"queries": [entry], "listedAt": BEGIN - slow - 3}))
    parsed = parse(replace(event, at=BEGIN + 9), shift=slow)
    status = parsed.entries[0].status
    assert (status.at, status.last_task_at, status.tasks_since) == (BEGIN, BEGIN + 1, BEGIN + 2)
    assert parsed.listed_at == BEGIN - 3


def test_each_query_of_a_status_was_seen_when_spark_answered_for_it() -> None:
    driver = Driver()
    row = reported(driver.status(listed("q", "r", at=BEGIN - 40), at=BEGIN)).runs["r"]
    assert (row.run.started_at, row.last_event_at) == (BEGIN - 40, BEGIN - 40)


def test_a_status_without_the_time_of_its_list_may_have_taken_a_minute() -> None:
    driver = Driver()
    ledger = reported(driver.line("status", {"queries": []}, at=BEGIN))
    assert ledger.agents[driver.agent].polls == (BEGIN - 60,)


def test_a_partial_poll_does_not_count_as_a_poll_of_other_sessions() -> None:
    driver = Driver()
    ledger = reported(
        driver.status(listed("q", "r")), driver.line("status", {"queries": [], "partial": True})
    )
    assert ledger.agents[driver.agent].polls == (BEGIN + 1,)


def test_a_query_that_is_listed_without_a_status_runs_and_keeps_its_last_status() -> None:
    driver = Driver()
    bare = {"id": "q", "runId": "r", "name": "q", "at": BEGIN + 40}
    ledger = reported(
        driver.status(listed("q", "r", message="Waiting", isTriggerActive=False, at=BEGIN)),
        driver.status(bare, at=BEGIN + 41),
    )
    row = ledger.runs["r"]
    assert row.status is not None and (row.status.message, row.status.at) == ("Waiting", BEGIN)
    assert row.last_event_at == BEGIN + 40


def test_a_failed_start_is_noted_on_the_query_it_was_meant_for() -> None:
    driver = Driver()
    failed = {"name": "orders", "id": None, "exception": "no such table"}
    ledger = reported(driver.started("q", "r"))
    tell(ledger, driver.line("start_failed", failed))
    assert (ledger.queries["q"].start_failed_at, ledger.queries["q"].start_failure) == (
        BEGIN + 2,
        "no such table",
    )


def test_a_query_that_never_started_is_known_by_its_name() -> None:
    failed = {"name": "orders", "id": None, "exception": "no such table"}
    ledger = reported(Driver().line("start_failed", failed))
    query = ledger.queries[lifecycle.unstarted_id("shop", "orders")]
    assert (query.name, query.start_failure, query.newest_run) == ("orders", "no such table", None)


@pytest.mark.parametrize("query_id", ["q", None])
def test_starts_that_fail_are_counted_as_starts_and_as_failures(query_id: str | None) -> None:
    driver = Driver()
    ledger = reported(driver.started("q", "r"), driver.terminated("q", "r"))
    failed = {"name": "orders", "id": query_id, "exception": "[TABLE_OR_VIEW_NOT_FOUND] clicks"}
    tell(ledger, *(driver.line("start_failed", failed) for _ in range(3)))
    totals = ledger.queries["q"].totals
    assert totals == {"starts": 4, "failures|TABLE_OR_VIEW_NOT_FOUND": 3}


def test_a_program_that_never_gets_a_query_started_is_counted_too() -> None:
    driver = Driver()
    failed = {"name": "orders", "id": None, "exception": "no such table"}
    ledger = reported(*(driver.line("start_failed", failed) for _ in range(2)))
    query = ledger.queries[lifecycle.unstarted_id("shop", "orders")]
    assert query.totals == {"starts": 2, "failures|unknown": 2}


def test_an_agent_has_the_labels_of_its_newest_word() -> None:
    driver = Driver(labels={"team": "data"})
    ledger = reported(driver.line("heartbeat", {}))
    assert ledger.agents[driver.agent].agent.labels == {"team": "data"}
    driver.labels = {"team": "web"}
    tell(ledger, driver.line("heartbeat", {}), driver.line("heartbeat", {}, at=BEGIN))
    assert ledger.agents[driver.agent].agent.labels == {"team": "web"}


def test_a_retired_query_comes_back_with_a_new_run() -> None:
    driver = Driver()
    ledger = reported(driver.started("q", "r1"), driver.terminated("q", "r1"))
    ledger.queries["q"] = replace(ledger.queries["q"], retired_at=BEGIN + 3)
    tell(ledger, driver.progress("q", "r1", 0, at=BEGIN + 1.5))
    assert ledger.queries["q"].retired_at == BEGIN + 3
    tell(ledger, driver.started("q", "r2", at=BEGIN + 10))
    assert ledger.queries["q"].retired_at is None


def test_totals_count_what_spark_reported() -> None:
    driver = Driver()
    totals = reported(driver.progress("q", "r", 0), driver.progress("q", "r", 1)).queries["q"].totals
    assert totals == {
        "starts": 1,
        "batches": 2,
        "input_rows": 20,
        "output_rows": 20,
        "source_input_rows|Rate": 20,
        "state_rows_updated|stateStoreSave": 4,
        "state_rows_removed|stateStoreSave": 0,
        "state_rows_dropped_by_watermark|stateStoreSave": 0,
    }


def test_output_rows_that_spark_does_not_know_are_not_counted_as_none() -> None:
    totals = reported(Driver().progress("q", "r", 0, sink={"numOutputRows": -1})).queries["q"].totals
    assert "output_rows" not in totals


def test_what_comes_from_outside_cannot_make_the_counters_grow_without_end() -> None:
    driver = Driver()
    ledger = UnitOfWork()
    for n in range(20):
        sources = [{"description": f"{n} {k}", "numInputRows": 1} for k in range(50)]
        tell(ledger, driver.progress("q", "r", n, sources=sources))
    assert len(ledger.queries["q"].totals) == run_resolution.MAX_TOTALS
    assert ledger.queries["q"].totals["batches"] == 20


def test_counters_of_sources_that_share_a_description_are_reported_apart() -> None:
    sources = [{"description": "Rate", "numInputRows": n} for n in (1, 2)]
    totals = reported(Driver().progress("q", "r", 0, sources=sources)).queries["q"].totals
    assert (totals["source_input_rows|Rate"], totals["source_input_rows|Rate#2"]) == (1, 2)


def test_dropped_events_are_totals_by_reason_and_never_go_back() -> None:
    driver = Driver()
    ledger = reported(
        driver.line("heartbeat", {"dropped": {"a": 5}}),
        driver.line("heartbeat", {"dropped": {"a": 3, "b": 1}}),
    )
    assert ledger.agents[driver.agent].agent.dropped == {"a": 5, "b": 1}


@pytest.mark.parametrize("data", [{}, {"id": 5, "runId": "r"}, {"id": "q"}, {"id": "", "runId": "r"}])
@pytest.mark.parametrize("type", ["started", "progress", "idle", "terminated"])
def test_an_event_must_report_its_query_and_run(type: str, data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"data\.\w+ must be"):
        parse(Driver().event(type, data | ({"batchId": 1} if type == "progress" else {})))


# -- any order, any repetition ---------------------------------------------------------------------


def story() -> list[bytes]:
    """Two runs of one query in one driver, a third in another, with everything that can be said of them."""
    item, two = Driver(), Driver()
    lines = [
        item.line("app_started", {"actions": "stop"}),
        item.started("q", "r1"),
        item.status(listed("q", "r1", facts={"trigger": "processing_time"})),
        item.status(listed("q", "r1", at=BEGIN + 2), at=BEGIN + 14),
        item.status(at=BEGIN + 29),
        item.progress("q", "r1", 0),
        item.progress("q", "r1", 1),
        item.line("idle", {"id": "q", "runId": "r1"}),
        item.terminated("q", "r1", exception="boom"),
        item.started("q", "r2", name="renamed"),
        item.progress("q", "r2", 2, name="renamed"),
        item.line("heartbeat", {"hostLoad": {"load": 40, "cpus": 2}}),
        item.line("heartbeat", {"dropped": {"x": 2}, "actions": "all", "hostLoad": {"load": 1, "cpus": 2}}),
        item.terminated("q", "r2"),
        item.line("app_ended", {"reason": "exit"}),
    ]
    two.seq = 20
    return [
        *lines,
        two.started("q", "r3", name="renamed"),
        two.progress("q", "r3", 3, name="renamed"),
        two.line("start_failed", {"id": "q", "name": "renamed", "exception": "late"}),
    ]


def essence(ledger: UnitOfWork) -> tuple[object, ...]:
    """All but how many failures were counted: an end that is first thought lost has counted as one."""
    row = ledger.queries["q"]
    rest = {name: value for name, value in row.totals.items() if not name.startswith("failures|")}
    return ledger.agents, {**ledger.queries, "q": replace(row, totals=rest)}, ledger.runs


def failures(ledger: UnitOfWork) -> float:
    return sum(v for name, v in ledger.queries["q"].totals.items() if name.startswith("failures|"))


def batches(lines: list[bytes], cuts: Iterable[int]) -> list[list[bytes]]:
    edges = [0, *sorted(cuts), len(lines)]
    return [lines[a:b] for a, b in itertools.pairwise(edges)]


LINES = story()
EXPECTED = essence(reported(*LINES))


@settings(max_examples=150, deadline=None)
@given(st.permutations(LINES), st.lists(st.integers(0, len(LINES)), max_size=4))
def test_the_same_events_in_any_order_and_any_batches_give_the_same_rows(
    lines: list[bytes], cuts: list[int]
) -> None:
    ledger = UnitOfWork()
    for batch in batches(lines, cuts):
        if batch:
            tell(ledger, *batch)
    assert essence(ledger) == EXPECTED
    # One run and one start; and two runs that were lost until their ends were received.
    assert 2 <= failures(ledger) <= 4
