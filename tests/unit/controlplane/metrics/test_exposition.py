"""What a scrape gets: the readings of a query, of its agent and of this server."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from alerts.matching.labels import matches
from alerts.promql.syntax.parser import parse
from controlplane.driver_model import Outage
from controlplane.events import progress
from controlplane.health.judge import judge
from controlplane.metrics import exposition
from controlplane.metrics.series.scrape import ServerMetrics
from controlplane.model import (
    Agent,
    CheckpointSummary,
    OperatorSample,
    QueryView,
    RunEnd,
    RunFacts,
    ShapeChange,
    Verdict,
)
from tests.paths import DATA
from tests.unit.controlplane.situations import (
    NOW,
    STATE_LOST,
    TOPIC,
    agent,
    batches,
    in_batch,
    run,
    sample,
    source,
    view,
)
from tests.unit.controlplane.wild_views import views_

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OWN = ServerMetrics(
    events_stored=7, events_duplicate=2, events_rejected=1, commit_seconds=0.01, open_actions=1, agents=1
)
#: As the agent reports it; the condition inside is Spark's own.
GONE = "the Spark Connect session is gone: [INVALID_HANDLE.SESSION_CHANGED] The handle x is invalid."
RECORDED = DATA / "progress/spark-4.3.jsonl"
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def render(*arguments: Any, **named: Any) -> tuple[bytes, str]:
    parts, content_type = exposition.render(*arguments, **named)
    return b"".join(parts), content_type


def scrape(*views: QueryView, **more: Any) -> Series:
    """Series → value, of views as the server would judge them."""
    statuses = {item.query_id: judge(item, NOW) for item in views}
    agents = {item.agent.agent: item.agent for item in views if item.agent}.values()
    body, _ = render(views, statuses, OWN, NOW, **{"agents": agents, **more})
    found: Series = {}
    for family in text_families(body.decode()):
        for item in family.samples:
            key = (item.name, tuple(sorted(item.labels.items())))
            assert key not in found, f"{key} is told twice"
            found[key] = item.value
    return found


def test_applications_that_are_given_up_are_series_of_the_server() -> None:
    body, _ = render([], {}, replace(OWN, apps_given_up={"billing": "payments"}), NOW, agents=())
    assert b'controlplane_app_given_up{app="billing",policy="payments"} 1' in body


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"agent": agent(app_id="local-1", outage=Outage("server_away", NOW - 20))}, "server_away"),
        ({"agent": agent(app_id="local-1", ended_at=NOW - 20, end_reason="exception")}, "exception"),
        ({"agent": agent(app_id="local-1", ended_at=NOW - 20, end_reason="jvm_exited")}, "jvm_exited"),
        ({"agent": agent(app_id="local-1", ended_at=NOW - 20, end_reason="sigterm")}, None),
        ({"agent": agent(app_id="local-1", outage=Outage("no_answer", NOW - 20))}, None),
        (
            {
                "agent": agent(app_id="local-1"),
                "run": run(ended_at=NOW - 5, end=RunEnd.FAILED, failure_text=GONE),
                "ended_by": "terminated",
            },
            "session_gone",
        ),
        (
            {"run": run(ended_at=NOW - 5, end=RunEnd.FAILED, failure_text="boom"), "ended_by": "terminated"},
            None,
        ),
        (
            {
                "agent": agent(app_id="local-1", ended_at=NOW - 5, end_reason="exception"),
                "outlives_agent": True,
            },
            "client_failed",
        ),
        ({"agent": agent(ended_at=NOW - 5, end_reason="sigterm"), "outlives_agent": True}, None),
    ],
)
def test_query_that_is_down_with_its_driver_has_the_cause(changes: dict[str, Any], cause: str | None) -> None:
    found = scrape(view(**changes))
    name = "spark_streaming_query_driver_down"
    causes = [dict(labels)["cause"] for series, labels in found if series == name]
    assert causes == ([cause] if cause else [])
    if cause:
        assert value(found, name, spark_app_id="local-1") == 1
        assert value(found, "spark_streaming_query_up", query_id="q1") == 0


def test_failure_of_a_driver_is_no_checkpoint_trouble_of_its_other_queries() -> None:
    failed = run(ended_at=NOW - 5, end=RunEnd.FAILED, failure_text=STATE_LOST)
    driver = agent(ended_at=NOW - 5, end_reason="exception")
    found = scrape(view(run=failed, agent=driver, ended_by="app_ended"))
    assert value(found, "spark_streaming_query_failure_info", error_class="driver-gone", retry="never") == 1


def test_failure_of_a_changed_query_is_no_checkpoint_trouble() -> None:
    failed = run(ended_at=NOW - 5, end=RunEnd.FAILED, failure_text=STATE_LOST, last_batch_id=None)
    change = ShapeChange(
        failed.run_id, "the key was (k) and is (k, v)", "it fails", "Revert the change.", True
    )
    found = scrape(view(run=failed, change=change, progress=()))
    assert why(found) == [("query-changed", "never")]


def value(series: Series, name: str, **labels: str) -> float | None:
    """The value of the only series of this name that has these labels; None where there is none."""
    found = [v for (n, own), v in series.items() if n == name and labels.items() <= dict(own).items()]
    assert len(found) < 2, f"{name} {labels} is not unique"
    return found[0] if found else None


def names(series: Series) -> set[str]:
    return {name for name, _ in series}


def test_a_series_carries_app_query_id_and_the_users_labels() -> None:
    labels = next(dict(own) for (name, own) in scrape(view()) if name == "spark_streaming_batch_id")
    assert labels == {"app": "shop", "query": "orders", "query_id": "q1", "team": "data"}


def test_a_query_without_a_name_is_called_by_eight_digits_of_its_id() -> None:
    series = scrape(view(name=None, query_id="12345678-9abc-def0"))
    assert value(series, "spark_streaming_query_up", query="12345678") == 1


def test_the_users_labels_never_replace_ours() -> None:
    series = scrape(view(labels={"app": "evil", "status": "fine", "source": "mine", "__name__": "x"}))
    assert value(series, "spark_streaming_query_status", app="shop", status="running") == 1
    assert value(series, "spark_streaming_source_lag_rows", source=TOPIC) == 0


def test_neither_run_nor_batch_id_is_a_label_but_on_the_info() -> None:
    series = scrape(view())
    carriers = {name for name, own in series if {"run_id", "batch_id"} & dict(own).keys()}
    assert carriers == {"spark_streaming_query_info"}


def test_the_last_batch_is_reported_in_base_units() -> None:
    series = scrape(view(progress=batches([5, 15], rows=10)))
    reported = {
        "batch_id": 1,
        "batch_duration_seconds": 1,
        "input_rows_per_second": 10,
        "last_progress_timestamp_seconds": NOW - 5,
        "utilization_ratio": 0.1,
        "trigger_interval_seconds": 10,
        "source_lag_rows": 15,
        "source_max_partition_lag_rows": 15,
        "source_arrival_rows_per_second": 2,
    }
    assert {name: value(series, f"spark_streaming_{name}") for name in reported} == pytest.approx(reported)
    assert value(series, "spark_streaming_batch_phase_seconds", phase="addBatch") == 0.8


def test_an_unknown_figure_is_absent_and_never_nought() -> None:
    """A source without a head has no lag, a watermark of 1970 is none, and NaN is no value."""
    odd = sample(1, NOW - 5, [source(None, None, None)], input_rows_per_second=math.nan, watermark=None)
    reported = names(scrape(view(progress=(odd,))))
    absent = "source_lag_rows source_lag_seconds input_rows_per_second watermark_timestamp_seconds".split()
    assert not reported & {f"spark_streaming_{name}" for name in absent}


def test_stateful_operators_report_their_own_and_sparks_custom_figures() -> None:
    metrics = {"rocksdbGetLatency": 1500.0, "SnapshotLastUploaded.partition_0_default": 3.0}
    metrics |= {"SnapshotLastUploaded.partition_1_default": -1.0, "rocksdbSstFileSize": 99.0}
    save = OperatorSample("stateStoreSave", 10, 1, 2, 3, 2880, 250, 2, metrics)
    series = scrape(view(progress=(sample(7, NOW - 5, operators=(save, replace(save, rows_total=20))),)))
    assert value(series, "spark_streaming_state_rows", operator="stateStoreSave") == 10
    assert value(series, "spark_streaming_state_rows", operator="stateStoreSave#2") == 20
    assert value(series, "spark_streaming_state_commit_seconds", operator="stateStoreSave") == 0.25
    assert value(series, "spark_streaming_state_snapshot_lag_versions", operator="stateStoreSave") == 8
    assert value(series, "spark_streaming_rocksdb_get_seconds", operator="stateStoreSave") == 1.5
    assert value(series, "spark_streaming_rocksdb_sst_files_bytes", operator="stateStoreSave") == 99
    assert not [name for name in names(series) if "partition_0" in name]


def test_counters_come_from_the_totals_of_the_store() -> None:
    totals = {
        "batches": 7,
        "output_rows": 70,
        "starts": 2,
        "failures|STREAM_FAILED": 1,
        f"source_input_rows|{TOPIC}": 70,
        "state_rows_removed|dedupe": 3,
        "something else": 1,
    }
    series = scrape(view(), totals_of=lambda query_id: totals if query_id == "q1" else {})
    assert value(series, "spark_streaming_batches_total") == 7
    assert value(series, "spark_streaming_query_starts_total") == 2
    assert value(series, "spark_streaming_query_failures_total", error_class="STREAM_FAILED") == 1
    assert value(series, "spark_streaming_source_input_rows_total", source=TOPIC) == 70
    assert value(series, "spark_streaming_state_rows_removed_total", operator="dedupe") == 3


def test_figures_of_batches_end_with_their_run_and_those_of_lifecycle_stay() -> None:
    stopped = scrape(view(run=run(ended_at=NOW - 9, end=RunEnd.STOPPED)))
    assert value(stopped, "spark_streaming_query_up") == 0
    assert value(stopped, "spark_streaming_query_expected") == 0
    assert value(stopped, "spark_streaming_query_status", status="stopped") == 1
    assert not names(stopped) & {"spark_streaming_batch_id", "spark_streaming_source_lag_rows"}


def test_a_failed_query_is_down_but_expected() -> None:
    failed = scrape(view(run=run(ended_at=NOW - 9, end=RunEnd.FAILED, failure_text="boom")))
    assert (value(failed, "spark_streaming_query_up"), value(failed, "spark_streaming_query_expected")) == (
        0,
        1,
    )


def why(series: Series) -> list[tuple[str, str]]:
    """Condition and advice of every failure that is reported."""
    reported = [dict(own) for name, own in series if name == "spark_streaming_query_failure_info"]
    return [(labels["error_class"], labels["retry"]) for labels in reported]


def test_a_failed_query_has_its_cause_and_whether_a_retry_helps() -> None:
    failed = run(ended_at=NOW - 9, end=RunEnd.FAILED, failure_text=STATE_LOST)
    lost = STATE_LOST.partition("]")[0][1:]
    assert why(scrape(view(run=failed))) == [(lost, "never")]
    assert why(scrape(view())) == []


def test_a_start_that_failed_last_is_why_a_query_is_failed() -> None:
    failed = run(ended_at=NOW - 9, end=RunEnd.FAILED, failure_text=STATE_LOST)
    later = view(run=failed, start_failed_at=NOW - 5, start_failure="java.net.ConnectException: refused")
    assert why(scrape(later)) == [("network", "now")]
    assert why(scrape(view(run=None, start_failed_at=NOW, start_failure="who knows"))) == [
        ("unknown", "once")
    ]


def test_a_new_run_does_not_report_the_old_ones_batches() -> None:
    fresh = scrape(view(run=run(run_id="run-2", started_at=NOW - 5)))
    assert value(fresh, "spark_streaming_query_up") == 1
    assert "spark_streaming_batch_id" not in names(fresh)


def test_the_age_of_a_running_batch_is_reported_and_nought_between_batches() -> None:
    progress_ = batches([0] * 3, last_at=NOW - 20)
    running = scrape(view(progress=progress_, status=in_batch(last_task_at=NOW - 4)))
    assert value(running, "spark_streaming_batch_age_seconds") == 20
    assert value(running, "spark_streaming_last_task_finished_timestamp_seconds") == NOW - 4
    assert value(scrape(view(progress=progress_)), "spark_streaming_batch_age_seconds") == 0


def test_the_delay_of_the_watermark_is_reported_while_the_query_runs() -> None:
    facts = RunFacts(watermark_delay=90.0)
    assert value(scrape(view(facts=facts)), "spark_streaming_watermark_delay_seconds") == 90
    over = scrape(view(facts=facts, run=run(ended_at=NOW - 9, end=RunEnd.STOPPED)))
    assert "spark_streaming_watermark_delay_seconds" not in names(over)


def test_the_info_names_what_is_known_of_the_run() -> None:
    facts = RunFacts(trigger="processing_time", checkpoint="s3://b/ck", sink="delta")
    series = scrape(view(facts=facts))
    labels = {"run_id": "run-1", "checkpoint": "s3://b/ck", "spark_version": "4.3.0", "sink": "delta"}
    labels["agent"] = "agent-1"
    assert value(series, "spark_streaming_query_info", **labels) == 1


def test_each_live_agent_is_reported_once_and_ended_ones_not() -> None:
    lossy = agent(dropped={"queue_full": 3})
    gone = agent(key=2, agent="agent-2", ended_at=NOW - 5, end_reason="exit")
    series = scrape(
        view(agent=lossy),
        view(query_id="q2", agent=lossy),
        view(query_id="q3", agent=gone),
        heartbeat_of=lambda _: {"callback": {"seconds_max": 0.002}, "driver": {"heapUsed": "much"}},
    )
    assert value(series, "spark_streaming_agent_heartbeat_timestamp_seconds") == NOW - 3
    assert value(series, "spark_streaming_agent_start_timestamp_seconds") == lossy.first_seen_at
    assert value(series, "spark_streaming_agent_events_dropped_total", reason="queue_full") == 3
    assert value(series, "spark_streaming_listener_callback_seconds", agent="agent-1") == 0.002
    assert "spark_streaming_driver_heap_bytes" not in names(series)


def test_an_agent_reports_executors_heap_and_the_users_labels() -> None:
    labels = {"team": "data", "app": "evil", "agent": "evil", "__x": "y"}
    scheduler = {"executors": 3, "driver": {"heapUsed": 5e8, "heapMax": 1e9}}
    series = scrape(view(agent=agent(labels=labels)), heartbeat_of=lambda _: scheduler)
    own = {"team": "data", "app": "shop", "agent": "agent-1"}
    reported = {"executors": 3, "driver_heap_bytes": 5e8, "driver_heap_max_bytes": 1e9}
    key = tuple(sorted(own.items()))
    assert {name: series[f"spark_streaming_{name}", key] for name in reported} == reported


def test_our_own_figures_are_there_without_any_query() -> None:
    series = scrape()
    assert value(series, "controlplane_events_stored_total") == 7
    assert value(series, "controlplane_store_commit_seconds") == 0.01
    assert value(series, "controlplane_queries", status="running") == 0


def test_queries_are_counted_by_verdict() -> None:
    series = scrape(view(), view(query_id="q2"), view(query_id="q3", retired_at=NOW))
    assert value(series, "controlplane_queries", status="running") == 2
    assert value(series, "controlplane_queries", status="retired") == 1


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        (OPENMETRICS, "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text; version=nonsense", "text/plain; version=0.0.4"),
    ],
)
def test_the_form_is_the_one_that_was_asked_for(accept: str | None, content_type: str) -> None:
    assert render([], {}, OWN, NOW, accept)[1].startswith(content_type)


def everything() -> QueryView:
    """A query that reports what Spark 4.3 reported of a real one, with labels that need escaping."""
    lines = RECORDED.read_text().splitlines()
    samples = [progress.sample(json.loads(line), NOW - 5 - 10 * n) for n, line in enumerate(reversed(lines))]
    reported = tuple(replace(item, run_id="run-1") for item in reversed(samples))
    return view(
        progress=reported, name='quo"te\n\\', labels={"team": "é\n"}, status=in_batch(last_task_at=NOW)
    )


TOTALS = {"batches": 7.0, "failures|A_B": 1.0, "source_input_rows|x": 1.0, "state_rows_updated|y": 2.0}


def test_openmetrics_is_what_a_strict_parser_takes() -> None:
    item = everything()
    verdicts = {item.query_id: judge(item, NOW)}
    body, _ = render([item], verdicts, OWN, NOW, OPENMETRICS, lambda _: TOTALS)
    families = {family.name: family for family in openmetrics_families(body.decode())}
    assert families["spark_streaming_batch_duration_seconds"].unit == "seconds"
    assert families["spark_streaming_query"].type == "info"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: apt-get install prometheus")
def test_promtool_finds_nothing_to_complain_of() -> None:
    item = everything()
    body, _ = render([item], {item.query_id: judge(item, NOW)}, OWN, NOW, None, lambda _: TOTALS)
    found = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, check=False)
    assert (found.returncode, found.stdout + found.stderr) == (0, b"")


def test_nothing_that_is_not_a_number_is_ever_reported() -> None:
    body, _ = render([everything()], {}, OWN, NOW, None, lambda _: {"batches": math.nan})
    assert b" NaN" not in body and b"Inf" not in body


@settings(max_examples=100, deadline=None)
@given(views_)
def test_any_view_at_all_can_be_scraped(strange: QueryView) -> None:
    verdict: Verdict = judge(strange, NOW)
    body, _ = render([strange], {strange.query_id: verdict}, OWN, NOW, OPENMETRICS)
    assert b"NaN" not in body


def test_the_load_of_the_host_is_exposed_with_its_verdict() -> None:
    reported = {
        "at": NOW,
        "hostLoad": {"load": 40, "cpus": 2, "throttledSeconds": 3.5, "memoryPressure": "x"},
    }
    series = scrape(view(agent=agent()), heartbeat_of=lambda _: reported)
    assert value(series, "spark_streaming_driver_host_load1") == 40
    assert value(series, "spark_streaming_driver_host_overloaded") == 1
    assert value(series, "spark_streaming_driver_cpu_throttled_seconds_total") == 3.5
    assert "spark_streaming_driver_memory_pressure_ratio" not in names(series)


def test_the_host_of_a_connect_client_has_no_verdict_on_the_driver() -> None:
    reported = {"at": NOW, "hostLoad": {"load": 40, "cpus": 2, "of": "client"}}
    series = scrape(view(agent=agent()), heartbeat_of=lambda _: reported)
    assert "spark_streaming_driver_host_overloaded" not in names(series)


def test_an_agent_that_sends_nonsense_in_its_heartbeat_is_reported_without_it() -> None:
    odd: Agent = agent(dropped={"x": math.nan})
    series = scrape(view(agent=odd), heartbeat_of=lambda _: {"callback": "x", "executors": True})
    assert not names(series) & {"spark_streaming_executors", "spark_streaming_agent_events_dropped_total"}


def test_a_figure_that_no_float_can_hold_is_absent_and_costs_no_other() -> None:
    seen = CheckpointSummary(NOW - 60, "ok", "it will resume", "/c", bytes=10**400, files=5)
    scheduler = {"executors": 10**400, "driver": {"heapUsed": 7}}
    series = scrape(view(checkpoint=seen, agent=agent()), heartbeat_of=lambda _: scheduler)
    assert value(series, "spark_streaming_checkpoint_files") == 5
    assert value(series, "spark_streaming_driver_heap_bytes") == 7
    assert not names(series) & {"spark_streaming_checkpoint_bytes", "spark_streaming_executors"}


class _OfClientLibrary(exposition._Page):
    """A page of which the client library writes every line."""

    def __init__(self, *parts: Any):
        super().__init__(*parts)
        self._plain = True


@pytest.mark.parametrize("accept", [None, OPENMETRICS, OPENMETRICS + "; escaping=allow-utf-8"])
def test_a_page_holds_what_the_client_library_writes(
    accept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = {"a.b": 'x"\\\n', "status": "the user's", "ü": "ö", "empty": ""}
    shown = [everything(), view(query_id="other", labels=odd)]
    verdicts = {item.query_id: judge(item, NOW) for item in shown}

    def lines() -> list[str]:
        body, _ = render(shown, verdicts, OWN, NOW, accept, lambda _: TOTALS, [agent(labels=odd)])
        return sorted(
            ",".join(sorted(re.split(r"(?<=\"),|[{}]", line))) for line in body.decode().splitlines()
        )

    ours = lines()
    monkeypatch.setattr(exposition, "_Page", _OfClientLibrary)
    assert ours == lines() and len(ours) > 100


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["spark_streaming_query_up"], {"spark_streaming_query_up"}),
        (['{query="orders"}', "controlplane_agents"], None),
        (['spark_streaming_query_status{status="failed"}'], set()),
    ],
)
def test_selectors_leave_out_what_no_client_asked_for(texts: list[str], wanted: set[str] | None) -> None:
    selectors = tuple(parse(text).matchers for text in texts)  # type: ignore[union-attr]
    whole = scrape(everything(), view(query_id="other", name="orders"))
    series = scrape(everything(), view(query_id="other", name="orders"), selectors=selectors)
    expected = {
        key: v
        for key, v in whole.items()
        if any(matches(found, {"__name__": key[0], **dict(key[1])}) for found in selectors)
    }
    assert series == expected
    assert wanted is None or names(series) == wanted
