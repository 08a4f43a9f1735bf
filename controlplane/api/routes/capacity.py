"""Route of a query's capacity: computed on request from the window, its shape, and six hours of reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from fastapi import APIRouter

from controlplane.api.bodies import Body, Number, Whole
from controlplane.api.deps import ControlPlaneDep, QueryIdDep
from controlplane.api.render import finite
from controlplane.api.routes.queries import view_of
from controlplane.app import ControlPlane
from controlplane.capacity.advice import AdviceInput, advice
from controlplane.capacity.assessment import assess
from controlplane.capacity.configuration import heap_bytes, heap_limit, parsed_shape, rate_limit
from controlplane.capacity.model import Bottleneck, RetentionRunway, StateRunway, Throughput
from controlplane.capacity.trends import MAX_POINTS
from controlplane.health.context import QueryContext, context_at
from controlplane.health.thresholds import DEFAULTS
from controlplane.history.model import ProgressRequest
from controlplane.model import ProgressSample, QueryView
from controlplane.store import shapes as shape_rows
from listeners.protocol.wire import rfc3339

router = APIRouter(prefix="/api/v1/queries", tags=["queries"])
STATE_SECONDS = 6 * 3600.0


class ThroughputBody(Body):
    """Load and headroom over the last `seconds`. `demand_from`: `arrival` at the sources, or `input` where that is
    unknown. `capacity_is_lower_bound`: larger batches may sustain more. `limited_by`: the source option that caps it."""

    batches: int
    seconds: float
    busy_ratio: float
    demand_rows_per_second: float
    demand_from: str
    capacity_rows_per_second: Number
    capacity_is_lower_bound: bool
    headroom_rows_per_second: Number
    limited_by: str | None
    catch_up_seconds: Number
    sentence: str


class BatchPartBody(Body):
    """A part of the mean batch."""

    part: str
    seconds: float
    ratio: float


class BottleneckBody(Body):
    """The part that takes most of a batch, and all parts, largest first."""

    part: str
    ratio: float
    sentence: str
    parts: list[BatchPartBody]


class RetentionBody(Body):
    """`left_seconds`: until the source deletes unread rows at the present rate; null where it deletes none."""

    retention_seconds: float
    oldest_unread_seconds: Number
    left_seconds: Number
    sentence: str


class StateRunwayBody(Body):
    """Size and growth of the state in `unit` (`rows` or `bytes`). `earliest_seconds`, `latest_seconds`: until it reaches
    its limit; null where that is not claimed."""

    unit: str
    size: Number
    growth_per_second: Number
    growth_low: Number
    growth_high: Number
    limit: Number
    limit_origin: str | None
    earliest_seconds: Number
    latest_seconds: Number
    sentence: str


class CapacityAdviceBody(Body):
    """A setting to change. `now`: its value, null where it is not set; `needs_new_checkpoint`: a restart does not take it."""

    setting: str
    now: str | None
    advice: str
    reason: str
    needs_new_checkpoint: bool


class CapacityBody(Body):
    """The capacity of a query. `unknown`: why its load and its bottleneck are. `retention`: null where none is declared
    by the label `retention`."""

    as_of: str
    query_id: str
    app: str
    name: str | None
    batch_id: Whole
    unknown: str | None
    throughput: ThroughputBody | None
    bottleneck: BottleneckBody | None
    retention: RetentionBody | None
    state: list[StateRunwayBody]
    advice: list[CapacityAdviceBody]


@router.get("/{query_id}/capacity", summary="Load, headroom, bottleneck, and when state or retention run out")
def get_capacity(plane: ControlPlaneDep, query_id: QueryIdDep) -> CapacityBody:
    """Nothing is claimed from too few batches; each part has a sentence with its figures."""
    now = plane.clock()
    context = context_at(view_of(plane, query_id), now, DEFAULTS)
    return _body(_assessed(plane, context))


def _assessed(plane: ControlPlane, context: QueryContext) -> AdviceInput:
    view = context.view
    with plane.reading() as conn:
        shape = parsed_shape(shape_rows.newest(conn, view.query_id))
    heap = heap_bytes(_heartbeat(plane, view), view.executors)
    found = assess(context, _history(plane, context), heap_limit(shape, heap), rate_limit(shape))
    return AdviceInput(context, found, shape, heap)


def _heartbeat(plane: ControlPlane, view: QueryView) -> object:
    return plane.window.agent_info(view.agent.agent).get("heartbeat") if view.agent is not None else None


def _history(plane: ControlPlane, context: QueryContext) -> Sequence[ProgressSample]:
    """Reports of the last hours, for the trend of the state; none for a query without state."""
    if context.last is None or not context.last.operators or not context.active:
        return ()
    wanted = ProgressRequest(context.view.query_id, context.now - STATE_SECONDS, context.now, MAX_POINTS)
    return [p for p in plane.history.progress(wanted).points if isinstance(p, ProgressSample)]


def _body(seen: AdviceInput) -> CapacityBody:
    view, last, found = seen.context.view, seen.context.last, seen.found
    return CapacityBody(
        as_of=rfc3339(seen.context.now),
        query_id=view.query_id,
        app=view.app,
        name=view.name,
        batch_id=last.batch_id if last is not None else None,
        unknown=found.unknown,
        throughput=_throughput(found.throughput) if found.throughput is not None else None,
        bottleneck=_bottleneck(found.bottleneck) if found.bottleneck is not None else None,
        retention=_retention(found.retention) if found.retention is not None else None,
        state=[_state(runway) for runway in found.state],
        advice=[CapacityAdviceBody(**asdict(each)) for each in advice(seen)],
    )


def _throughput(load: Throughput) -> ThroughputBody:
    return ThroughputBody(
        batches=load.batches,
        seconds=load.seconds,
        busy_ratio=load.busy_ratio,
        demand_rows_per_second=load.demand,
        demand_from=load.demand_from,
        capacity_rows_per_second=finite(load.capacity),
        capacity_is_lower_bound=load.is_lower_bound,
        headroom_rows_per_second=finite(load.headroom),
        limited_by=load.limited_by,
        catch_up_seconds=finite(load.catch_up),
        sentence=load.sentence,
    )


def _bottleneck(slow: Bottleneck) -> BottleneckBody:
    parts = [BatchPartBody(part=p.name, seconds=p.seconds, ratio=p.ratio) for p in slow.parts]
    return BottleneckBody(part=slow.part, ratio=slow.ratio, sentence=slow.sentence, parts=parts)


def _retention(kept: RetentionRunway) -> RetentionBody:
    return RetentionBody(
        retention_seconds=kept.retention,
        oldest_unread_seconds=finite(kept.oldest_unread),
        left_seconds=finite(kept.left),
        sentence=kept.sentence,
    )


def _state(runway: StateRunway) -> StateRunwayBody:
    growth, limit = runway.growth, runway.limit
    return StateRunwayBody(
        unit=runway.unit,
        size=finite(runway.size),
        growth_per_second=growth.value if growth is not None else None,
        growth_low=growth.low if growth is not None else None,
        growth_high=growth.high if growth is not None else None,
        limit=limit.value if limit is not None else None,
        limit_origin=limit.origin if limit is not None else None,
        earliest_seconds=finite(runway.earliest),
        latest_seconds=finite(runway.latest),
        sentence=runway.sentence,
    )
