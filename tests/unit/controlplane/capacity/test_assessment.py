"""The whole assessment, of views as odd as their types allow."""

from __future__ import annotations

from hypothesis import given, settings

from controlplane.capacity.assessment import CapacityAssessment, assess
from controlplane.health.context import context_at
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import QueryView
from tests.unit.controlplane.situations import NOW, batches, ended, view
from tests.unit.controlplane.wild_views import views_


def of(seen: QueryView) -> CapacityAssessment:
    return assess(context_at(seen, NOW, DEFAULTS))


def sentences(found: CapacityAssessment) -> list[str]:
    parts = (found.throughput, found.bottleneck, found.retention, *found.state)
    return [*(part.sentence for part in parts if part is not None), *filter(None, [found.unknown])]


@given(views_)
@settings(max_examples=60)
def test_any_view_is_assessed_and_only_with_finite_figures(seen: QueryView) -> None:
    found = of(QueryView(**{**vars(seen), "labels": {"retention": "1h", "state_limit_rows": "5"}}))
    assert (found.throughput is None) == (found.unknown is not None)
    assert not [text for text in sentences(found) if "nan" in text or " inf" in text]
    if found.throughput is not None:
        assert 0 <= found.throughput.busy_ratio <= 1
        assert found.throughput.demand >= 0


def test_a_healthy_query_has_a_load_and_a_bottleneck() -> None:
    found = of(view(progress=batches([0] * 12)))
    assert found.throughput is not None
    assert found.bottleneck.part == "tasks"
    assert found.unknown is None


def test_a_query_that_ended_has_neither() -> None:
    found = of(view(run=ended(None)))
    assert (found.throughput, found.bottleneck, found.unknown) == (None, None, "The query does not run.")
