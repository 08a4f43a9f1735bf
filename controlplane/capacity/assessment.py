"""The capacity of a query from its recent reports: load, bottleneck, retention, state. Pure; called by the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.capacity import declared
from controlplane.capacity.bottleneck import bottleneck
from controlplane.capacity.model import Bottleneck, RetentionRunway, StateLimit, StateRunway, Throughput
from controlplane.capacity.retention import retention_runway
from controlplane.capacity.state_runway import state_runways
from controlplane.capacity.throughput import recent, throughput, unmeasured
from controlplane.health.context import QueryContext
from controlplane.model import ProgressSample


@dataclass(frozen=True)
class CapacityAssessment:
    """What is known. `unknown`: why load and bottleneck are not; `batches`: those that they were computed from."""

    throughput: Throughput | None
    bottleneck: Bottleneck | None
    unknown: str | None
    retention: RetentionRunway | None
    state: Sequence[StateRunway]
    batches: Sequence[ProgressSample] = ()


def assess(
    context: QueryContext,
    history: Sequence[ProgressSample] = (),
    limits: Iterable[StateLimit] = (),
    rate_limit: tuple[str, float] | None = None,
) -> CapacityAssessment:
    """Assess a query.

    `history`: reports of a longer time, for the trend of the state; `limits`: of the state, besides those of its labels.
    `rate_limit`: the source option that caps the rows of a batch, and its value.
    """
    batches = recent(context)
    unknown = unmeasured(context, batches)
    load = None if unknown else throughput(context, batches, rate_limit)
    found = None if unknown else bottleneck(context.view, batches)
    if unknown is None and load is None:
        unknown = "The times of its batches do not show its load."
    stated = (*declared.state_limits(context.view.labels), *limits)
    state = state_runways(history or context.batches, stated) if context.active else []
    return CapacityAssessment(load, found, unknown, retention_runway(context), state, batches)
