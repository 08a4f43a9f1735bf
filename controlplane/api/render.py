"""The server's values as response bodies. Pure: everything comes in as arguments.

Called by the routes and by `controlplane.api.fleet.cache`. Unknown and non-finite values are null, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from controlplane.actions import guards
from controlplane.api.bodies import (
    ActionBody,
    AgentBody,
    FailureBody,
    GapBody,
    OutageBody,
    ProgressBody,
    RunBody,
)
from controlplane.api.history_bodies import (
    HistoryBody,
    PastActionBody,
    PastAlertBody,
    PastRunBody,
    TimelineBody,
)
from controlplane.driver_model import HostLoad, Outage
from controlplane.events.progress import items
from controlplane.health import failures, judge, lag, terminal_status
from controlplane.health.checkpoint_drivers import going_on
from controlplane.health.context import QueryContext
from controlplane.health.host import overload
from controlplane.health.offset_units import lag_rows, row_sources
from controlplane.health.rates import input_rate, processing_rate
from controlplane.health.run_failure import failure_of_run
from controlplane.history.model import PastRun, ProgressPoint, TimelineResult
from controlplane.history.service import HistoryStatus
from controlplane.metrics.samples import DOWN, NOT_EXPECTED
from controlplane.model import (
    Action,
    Agent,
    Failure,
    ProgressSample,
    QueryStatus,
    QueryView,
    Run,
    ShapeChange,
    Verdict,
)
from controlplane.records import Gap
from listeners.protocol.wire import rfc3339

RECENT = 30
LAG_FIELDS = ("lag_rows", "lag_seconds", "lag_offsets", "lag_batches", "arrival_rows_per_second")


def stamp(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(seconds)


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def action_body(action: Action) -> ActionBody:
    return ActionBody(
        id=action.id,
        query_id=action.query_id,
        app=action.app,
        name=action.name,
        action=action.action,
        drain=action.drain,
        overrides=dict(action.overrides),
        actor=action.actor,
        state=action.state.value,
        reason=action.reason,
        request_reason=action.request_reason,
        evidence=dict(action.evidence),
        requested_at=rfc3339(action.requested_at),
        delivered_at=stamp(action.delivered_at),
        finished_at=stamp(action.finished_at),
        deadline_at=rfc3339(action.deadline_at),
        agent=action.agent,
    )


def _no_driver(context: QueryContext) -> str | None:
    """Why no action can be sent to the driver; None if one can."""
    view = context.view
    refusal = guards.no_driver(view, context.outage)
    refusal = refusal or guards.two_drivers(view, guards.living_rivals(view, context.now))
    return refusal.reason if refusal else None


def failure_body(
    text: str | None, error_class: str | None = None, overload: str | None = None
) -> FailureBody | None:
    """Spark's exception explained; None without an exception. `overload`: of the driver's host at that time."""
    return _failure(failures.explain(text, error_class, overload)) if text else None


def run_failure_body(
    run: Run, change: ShapeChange | None = None, overload: HostLoad | None = None
) -> FailureBody | None:
    """Why a run failed; None where it has no exception. See `failure_of_run`."""
    return _failure(failure_of_run(run, change, overload)) if run.failure_text else None


def _failure(failure: Failure) -> FailureBody:
    return FailureBody(**asdict(failure))


def query_fields(context: QueryContext, verdict: Verdict, since: float, starts: int) -> dict[str, Any]:
    """The row of a query in the fleet: the fields of a `QueryBody`, without its firing alerts."""
    view = context.view
    last = view.progress[-1] if view.progress else None
    run, agent, facts = view.run, view.agent, view.facts
    batch_id = last.batch_id if last else run.last_batch_id if run else None
    return {
        "query_id": view.query_id,
        "app": view.app,
        "name": view.name,
        "status": verdict.status.value,
        "reason": verdict.reason,
        "since": rfc3339(since),
        "run_id": run.run_id if run else None,
        "batch_id": batch_id,
        "labels": dict(view.labels),
        "alerts": 0,
        "alert_severity": None,
        "firing": [],
        "vanished": terminal_status.disappeared(context) is not None,
        "no_driver": _no_driver(context),
        "agent": agent.agent if agent else None,
        "spark_version": agent.spark_version if agent else None,
        "ui_url": agent.ui_url if agent else None,
        "trigger": facts.trigger,
        "trigger_interval_seconds": facts.trigger_interval,
        "last_progress_at": stamp(last.at if last else None),
        "last_event_at": stamp(last_event_at(view)),
        "starts": starts,
        "actions_allowed": agent.actions if agent else "none",
        "restart": {"how": facts.restart or "unknown", "reason": facts.restart_reason},
        "action": action_body(view.action).model_dump() if view.action else None,
        "desired": view.supervised.state.value,
        "recent": _recent(view.progress[-RECENT:], context.row_sources),
        **_lag(context, verdict.status),
        **_figures(view.progress),
        **({"input_rows_per_second": 0.0} if last and verdict.status is QueryStatus.IDLE else {}),
    }


def _lag(context: QueryContext, status: QueryStatus) -> dict[str, Any]:
    """What waits at the sources: unknown while no batch of a running query shows it."""
    progress, counting = context.view.progress, context.row_sources
    down = status in DOWN | NOT_EXPECTED
    if not progress or down or not context.batches:
        why = "the query does not run" if down else "this run has finished no batch yet"
        why = "Spark does not answer" if status is QueryStatus.UNREACHABLE else why
        why = "another driver goes on with the query" if going_on(context.view, context.now) else why
        return {**dict.fromkeys(LAG_FIELDS), "lag_unknown": why if progress else None}
    figures = (
        lag_rows(progress[-1], counting),
        context.lag_seconds,
        progress[-1].lag_offsets,
        lag.lag_batches(progress),
        lag.total_arrival_rate(progress[-2:], counting),
    )
    return dict(zip(LAG_FIELDS, map(finite, figures), strict=True), lag_unknown=judge.lag_unknown(context))


def _figures(samples: Sequence[ProgressSample]) -> dict[str, Any]:
    last = samples[-1] if samples else None
    return {
        "input_rows_per_second": finite(input_rate(samples)),
        "processed_rows_per_second": finite(processing_rate(last)) if last else None,
        "batch_duration_seconds": finite(last.duration) if last else None,
        **{name: getattr(last, name, None) for name in ("state_rows", "state_bytes")},
        "watermark": stamp(last.watermark if last else None),
    }


def last_event_at(view: QueryView) -> float | None:
    """Time of the last event of this query."""
    run, status = view.run, view.status
    times = (
        view.progress[-1].at if view.progress else None,
        view.idle_at,
        status.at if status else None,
        run.started_at if run else None,
        run.ended_at if run else None,
        view.start_failed_at,
    )
    return max((at for at in times if at is not None), default=None)


def _recent(samples: Sequence[ProgressSample], counting: frozenset[str]) -> dict[str, Any]:
    """The last batches; `counting`: the sources whose offsets count rows."""
    return {
        "batch_duration_seconds": [finite(s.duration) for s in samples],
        "lag_rows": [finite(lag_rows(s, counting)) for s in samples],
        "processed_rows_per_second": [finite(processing_rate(s)) for s in samples],
    }


def run_body(run: Run) -> RunBody:
    return RunBody(
        run_id=run.run_id,
        started_at=rfc3339(run.started_at),
        ended_at=stamp(run.ended_at),
        end=run.end.value if run.end else None,
        first_batch_id=run.first_batch_id,
        last_batch_id=run.last_batch_id,
        batches=run.batches,
        agent=run.agent,
        failure=run_failure_body(run),
    )


def gap_bodies(query_id: str, gaps: Sequence[Gap]) -> list[GapBody]:
    return [
        GapBody.model_validate(
            {
                "query_id": query_id,
                "run_id": gap.run_id,
                "from": gap.first,
                "to": gap.last,
                "seen_at": rfc3339(gap.seen_at),
            }
        )
        for gap in gaps
    ]


def _outage_body(outage: Outage | None) -> OutageBody | None:
    if outage is None:
        return None
    return OutageBody(since=rfc3339(outage.since), cause=outage.cause, detail=outage.detail)


def agent_body(agent: Agent, host: HostLoad | None) -> AgentBody:
    return AgentBody(
        agent=agent.agent,
        app=agent.app,
        app_id=agent.app_id,
        labels=dict(agent.labels),
        spark_version=agent.spark_version,
        master=agent.master,
        ui_url=agent.ui_url,
        actions=agent.actions,
        first_seen_at=rfc3339(agent.first_seen_at),
        last_seen_at=rfc3339(agent.last_seen_at),
        ended_at=stamp(agent.ended_at),
        end_reason=agent.end_reason,
        unreachable=_outage_body(agent.outage),
        clock_offset_seconds=round(agent.clock_offset, 3),
        dropped=dict(agent.dropped),
        host=host_body(host) if host else None,
    )


def host_body(host: HostLoad) -> dict[str, Any]:
    """The load of an agent's host, and why that is an overload."""
    return {**asdict(host), "at": rfc3339(host.at), "overload": overload(host)}


def operators_of(progress: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return items((progress or {}).get("stateOperators"))


def sink_of(progress: Mapping[str, Any] | None) -> dict[str, Any] | None:
    sink = (progress or {}).get("sink")
    return sink if isinstance(sink, dict) else None


def progress_bodies(points: Sequence[ProgressSample | ProgressPoint]) -> list[ProgressBody]:
    """Progress points, oldest first; the arrival rate comes from the latest offsets of two consecutive reports."""
    found: list[ProgressBody] = []
    before: ProgressSample | None = None
    counting = row_sources([point for point in points if isinstance(point, ProgressSample)])
    for now in points:
        if isinstance(now, ProgressPoint):
            found.append(_point(now))
            before = None
        else:
            found.append(_progress((before, now) if before else (now,), counting))
            before = now
    return found


def _point(point: ProgressPoint) -> ProgressBody:
    return ProgressBody(
        at=rfc3339(point.at),
        trigger_at=rfc3339(point.trigger_at),
        run_id=point.run_id,
        batch_id=point.batch_id,
        batch_duration_seconds=finite(point.duration) or 0.0,
        phases_ms={},
        input_rows=point.input_rows,
        arrival_rows_per_second=None,
        input_rows_per_second=finite(point.input_rows_per_second),
        processed_rows_per_second=finite(point.processed_rows_per_second),
        lag_rows=finite(point.lag_rows),
        output_rows=point.output_rows,
        state_rows=point.state_rows,
        state_bytes=point.state_bytes,
        watermark=stamp(point.watermark),
        resolution=point.resolution,
    )


def timeline_body(result: TimelineResult) -> TimelineBody:
    """The timeline of a query from the lake."""
    return TimelineBody(
        runs=[_past_run(run) for run in result.runs],
        alerts=[
            PastAlertBody(
                name=alert["name"],
                severity=alert["severity"],
                fingerprint=alert["fingerprint"],
                fired_at=rfc3339(alert["fired_at"]),
                resolved_at=stamp(alert["resolved_at"]),
                annotations={"summary": alert["summary"]} if alert["summary"] else {},
            )
            for alert in result.alerts
        ],
        actions=[
            PastActionBody(
                **action
                | {
                    "requested_at": rfc3339(action["requested_at"]),
                    "finished_at": stamp(action["finished_at"]),
                }
            )
            for action in result.actions
        ],
        notes=list(result.notes),
    )


def _past_run(run: PastRun) -> PastRunBody:
    return PastRunBody(
        run_id=run.run_id,
        started_at=stamp(run.started_at),
        ended_at=stamp(run.ended_at),
        end=run.end.value if run.end else None,
        first_seen_at=stamp(run.first_seen_at),
        last_seen_at=stamp(run.last_seen_at),
        failure=failure_body(run.failure, run.error_class),
    )


def history_body(status: HistoryStatus) -> HistoryBody:
    """The state of the offload to the lake."""
    return HistoryBody(
        lake=status.lake,
        hot_days=status.hot_days,
        offloaded_until=status.mark,
        offloading=status.moving,
        offloaded_at=stamp(status.moved_at),
        verified_at=stamp(status.verified_at),
        next_at=stamp(status.next_at),
        rows=status.rows,
        lost_events=status.lost,
        error=status.error,
    )


def _progress(pair: Sequence[ProgressSample], counting: frozenset[str]) -> ProgressBody:
    sample = pair[-1]
    return ProgressBody(
        at=rfc3339(sample.at),
        trigger_at=rfc3339(sample.trigger_at),
        run_id=sample.run_id,
        batch_id=sample.batch_id,
        phases_ms={name: float(ms) for name, ms in sample.phases_ms.items()},
        input_rows=sample.input_rows,
        arrival_rows_per_second=finite(lag.total_arrival_rate(pair, counting)),
        output_rows=sample.output_rows,
        lag_rows=finite(lag_rows(sample, counting)),
        **{**_figures(pair), "batch_duration_seconds": finite(sample.duration) or 0.0},
    )
