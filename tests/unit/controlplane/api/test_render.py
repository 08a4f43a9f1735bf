"""Rows of queries: what is unknown is null."""

from __future__ import annotations

import pytest

from controlplane.api.bodies import QueryBody
from controlplane.api.render import query_body
from controlplane.health.judge import judge
from controlplane.model import QueryView, RunEnd
from tests.unit.controlplane.situations import NOW, agent, batches, ended, view


def row(seen: QueryView) -> QueryBody:
    return query_body(seen, judge(seen, NOW), NOW, 1, NOW)


def test_a_running_query_has_the_lag_of_its_last_batch() -> None:
    body = row(view(progress=batches([0] * 12)))
    assert (body.status, body.lag_rows, body.lag_seconds) == ("running", 0.0, 0.0)
    assert body.arrival_rows_per_second is not None


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
