"""Rows of queries: what is unknown is null."""

from __future__ import annotations

import pytest

from controlplane.api.bodies import QueryBody
from controlplane.api.render import query_fields
from controlplane.driver_model import Outage
from controlplane.health.context import context_at
from controlplane.health.judge import judge
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import QueryView, RunEnd
from tests.unit.controlplane.situations import NOW, agent, batches, ended, run, view


def row(seen: QueryView) -> QueryBody:
    return QueryBody(**query_fields(context_at(seen, NOW, DEFAULTS), judge(seen, NOW), NOW, 1))


def test_a_running_query_has_the_lag_of_its_last_batch() -> None:
    body = row(view(progress=batches([0] * 12)))
    assert (body.status, body.lag_rows, body.lag_seconds) == ("running", 0.0, 0.0)
    assert body.arrival_rows_per_second is not None


def test_whether_an_unreachable_query_runs_is_not_stated() -> None:
    outage = Outage("server_away", NOW - 60)
    body = row(view(agent=agent(outage=outage), progress=batches([0] * 12)))
    assert (body.status, body.lag_rows, body.lag_unknown) == ("unreachable", None, "Spark does not answer")


def test_the_lag_of_a_run_without_a_batch_is_not_that_of_the_run_before() -> None:
    body = row(view(run=run(run_id="r2", started_at=NOW - 2), progress=batches([500] * 12)))
    assert (body.lag_rows, body.lag_seconds, body.lag_offsets, body.arrival_rows_per_second) == (None,) * 4
    assert body.lag_unknown == "this run has finished no batch yet"


def test_an_idle_query_reads_nothing() -> None:
    body = row(view(progress=batches([0] * 12, last_at=NOW - 100), idle_at=NOW - 3))
    assert (body.status, body.input_rows_per_second, body.batch_duration_seconds) == ("idle", 0.0, 1.0)


@pytest.mark.parametrize(
    "seen",
    [
        view(run=ended(RunEnd.FAILED, failure_text="boom")),
        view(run=ended(RunEnd.STOPPED)),
        view(run=ended(RunEnd.FINISHED)),
        view(agent=agent(last_seen_at=NOW - 900), progress=batches([0] * 12, last_at=NOW - 900), status=None, polls=()),
    ],
)  # fmt: skip
def test_the_lag_of_a_query_that_does_not_run_is_unknown(seen: QueryView) -> None:
    body = row(seen)
    assert (body.lag_rows, body.lag_seconds, body.arrival_rows_per_second) == (None, None, None), body.status
    assert body.batch_duration_seconds == 1.0
