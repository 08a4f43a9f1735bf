"""Notes on what the figures of a query hide."""

from __future__ import annotations

import pytest

from controlplane.health.context import context_at
from controlplane.health.notes import notes
from controlplane.health.thresholds import DEFAULTS
from tests.unit.controlplane.situations import NOW, sample, source, view


@pytest.mark.parametrize(
    ("sink", "times", "note"),
    [
        ("ForeachBatchSink", 2, "call persist() on it first"),
        ("NoopTable", 3, "for example in a union or a join"),
        ("ForeachBatchSink", 1, None),
    ],
)
def test_a_source_that_is_read_several_times_is_noted(sink: str, times: int, note: str | None) -> None:
    reads = [
        source({"orders/0": 10 * n}, {"orders/0": 10 * n + 10}, None, input_rows=10 * times) for n in range(4)
    ]
    made = tuple(sample(n, NOW - 40 + 10 * n, [read], sink=sink) for n, read in enumerate(reads))
    found = notes(context_at(view(progress=made), NOW, DEFAULTS))
    assert len(found) == (note is not None)
    assert all(note in text and f"{times} times" in text for text in found if note)


def test_a_query_without_batches_has_no_notes() -> None:
    assert notes(context_at(view(progress=()), NOW, DEFAULTS)) == []
