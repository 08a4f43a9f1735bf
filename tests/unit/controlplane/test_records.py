"""Copies of rows with changed fields."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from controlplane.model import Agent, Run
from controlplane.records import AgentRow, Gap, QueryRow, ReportedBatches, RunRow, changed

RUN = Run(1, "r", "q", "a", started_at=1.0)
ROWS = [
    (RUN, {"ended_at": 2.0}),
    (RunRow(RUN, last_event_at=1.0), {"run": RUN, "idle_at": 3.0}),
    (QueryRow(1, "q", "shop", None, {}, 1.0), {"totals": {"batches": 1.0}}),
    (AgentRow(Agent(1, "a", "shop")), {"polls": (1.0,)}),
    (ReportedBatches(3, (Gap("r", 1, 2, 5.0),)), {"high": 4, "gaps": ()}),
]


@pytest.mark.parametrize(("row", "values"), ROWS)
def test_a_changed_copy_is_that_of_dataclasses(row: object, values: dict[str, object]) -> None:
    before = repr(row)
    copy = changed(row, **values)
    assert copy == replace(row, **values)  # type: ignore[type-var]
    assert repr(row) == before
    assert type(copy) is type(row)
    with pytest.raises(FrozenInstanceError):
        copy.key = 5  # type: ignore[attr-defined]
