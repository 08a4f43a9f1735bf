"""The possible causes of a failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.driver_model import Outage
from controlplane.health.context import context_at
from controlplane.health.failures import explain
from controlplane.health.thresholds import DEFAULTS
from controlplane.incidents.causes import condition, failure_of, places
from controlplane.model import QueryStatus, QueryView, RunEnd, SourceSample
from controlplane.supervision_model import Desired, DesiredState, Supervised
from tests.unit.controlplane.actions.views import AGENT, NOW, run, sample, view
from tests.unit.controlplane.supervision.troubles import FLAKY, POISON, STRANGE

SINCE = NOW - 10.0
TOPIC = SourceSample("KafkaV2[Subscribe[orders]]", None, None, None, 1)


def failed(text: str = FLAKY, **changes: object) -> QueryView:
    ended = run(ended_at=SINCE, end=RunEnd.FAILED, failure_text=text, batches=5)
    reported = sample(7, sources=(TOPIC,), sink="FileSink[s3a://lake/out/]")
    return view(run=ended, progress=(reported,), labels={"catalog": "prod"}, **changes)


def causes(of: QueryView, status: QueryStatus = QueryStatus.FAILED) -> set[str]:
    found = failure_of(context_at(of, NOW, DEFAULTS), status, SINCE, "h1")
    return set() if found is None else {f"{c.kind}:{c.value}" for c in found.causes}


def test_a_failure_has_the_condition_and_what_the_query_uses() -> None:
    shared = {"catalog:prod", "sink:s3a://lake/out", "source:topic orders"}
    assert causes(failed()) == {*shared, "condition:network"}
    assert causes(failed(), QueryStatus.STUCK) == {*shared, "host:h1"}


def test_a_driver_that_is_gone_explains_its_queries_alone() -> None:
    gone = replace(AGENT, app_id="local-1", ended_at=SINCE, end_reason="exception")
    assert causes(replace(failed(), agent=gone, ended_by="app_ended")) == {"driver:local-1", "host:h1"}
    away = replace(AGENT, outage=Outage("server_away", SINCE))
    unreachable = view(agent=away)
    assert causes(unreachable, QueryStatus.UNREACHABLE) == {"driver:a1", "host:h1"}


def test_a_query_that_is_up_or_that_nobody_wants_to_run_is_no_failure() -> None:
    assert failure_of(context_at(view(), NOW, DEFAULTS), QueryStatus.RUNNING, SINCE, "") is None
    stopped = Supervised(Desired("q1", DesiredState.STOPPED, "ada", NOW))
    assert causes(failed(supervised=stopped)) == set()


@pytest.mark.parametrize(
    ("description", "found"),
    [
        ("KafkaV2[Subscribe[orders, refunds]]", ("topic orders", "topic refunds")),
        ("KafkaV2[Assign[rates-0,rates-1]]", ("topic rates",)),
        ("KafkaV2[SubscribePattern[orders.*]]", ()),
        ("FileStreamSource[file:/data/in]", ("/data/in on h1",)),
        ("FileSink[/data/out]", ("/data/out on h1",)),
        ("DeltaSource[s3a://lake/t/]", ("s3a://lake/t",)),
        ("RateStreamV2[rowsPerSecond=10, rampUpTimeSeconds=0]", ()),
        ("ForeachBatchSink", ()),
    ],
)
def test_places_are_read_from_descriptions(description: str, found: tuple[str, ...]) -> None:
    assert places(description, "h1") == found


def test_a_condition_that_no_restart_cures_counts_for_each_application() -> None:
    assert condition(explain(POISON), "shop") == "CAST_INVALID_INPUT in shop"
    assert condition(explain(FLAKY), "shop") == "network"


def test_an_unknown_failure_is_compared_by_its_root_cause_without_figures() -> None:
    first, other = (condition(explain(f"{STRANGE} at batch {n}"), "shop") for n in (17, 18))
    assert first == other and "frobnicator" in first
    assert condition(explain(""), "shop") == ""
