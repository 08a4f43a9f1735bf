"""Bodies of bulk actions, and what fills them. The conventions are those of `controlplane.api.bodies`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from controlplane.actions.guards import ActionRefusal
from controlplane.api.bodies import Body, Person, Stamp, Text
from controlplane.api.render import stamp
from controlplane.bulk_model import MAX_PARALLEL, MAX_QUERIES, BulkAction, BulkState
from controlplane.model import Action, QueryStatus, QueryView
from listeners.protocol.wire import rfc3339

Matchers = Annotated[str, StringConstraints(max_length=4096)]


class BulkPlanRequest(BaseModel):
    """`POST …/plan`. The queries with these ids, or those that meet all matchers of `selector`, such as `app="billing"`.

    Matchers see a query's labels, `app`, `query` and `query_id`. `statuses`: only queries that have one of them now.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    action: Literal["stop", "start", "restart"]
    query_ids: list[str] = Field(default_factory=list, max_length=MAX_QUERIES)
    selector: list[Matchers] = Field(default_factory=list, max_length=20)
    statuses: list[str] = Field(default_factory=list, max_length=len(QueryStatus))


class BulkRequest(BulkPlanRequest):
    """`POST …/bulk-actions`. `skip_refused`: leave out the queries that the plan refuses, instead of a refusal of all.

    `max_parallel`: open actions at a time. `halt_on_failure`: no further query after an action that does not succeed.
    """

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
    actor: Person | None = None
    drain: bool = False
    max_parallel: int = Field(default=1, ge=1, le=MAX_PARALLEL)
    halt_on_failure: bool = True
    skip_refused: bool = False


class CancelRequest(BaseModel):
    """`POST …/cancel`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    actor: Person | None = None


class PlannedQueryBody(Body):
    """A query of a plan. `code`, `refusal`: why the action would be refused now; null where it would be accepted."""

    query_id: str
    app: str
    name: str | None
    status: str
    code: str | None
    refusal: str | None


class BulkPlanBody(Body):
    """What a bulk action would act on. `accepted`: queries that would not be refused now."""

    action: str
    accepted: int
    queries: list[PlannedQueryBody]


class BulkQueryBody(Body):
    """A query of a bulk action. `state`: that of its action, or waiting or skipped, or not_requested after the end."""

    query_id: str
    app: str | None
    name: str | None
    state: str
    reason: str
    action_id: str | None


class BulkBody(Body):
    """A bulk action. `reason` explains its state, `request_reason` is the person's reason for the request."""

    id: str
    action: str
    state: str
    reason: str
    actor: str
    request_reason: Text
    requested_at: str
    ended_at: Stamp
    drain: bool
    max_parallel: int
    halt_on_failure: bool
    counts: dict[str, int]
    queries: list[BulkQueryBody]


class OneBulkBody(Body):
    """A bulk action."""

    bulk_action: BulkBody


class BulkListBody(Body):
    """Bulk actions, newest first."""

    bulk_actions: list[BulkBody]


def planned(view: QueryView, status: QueryStatus, refusal: ActionRefusal | None) -> PlannedQueryBody:
    """A query of a plan."""
    return PlannedQueryBody(
        query_id=view.query_id,
        app=view.app,
        name=view.name,
        status=status.value,
        code=refusal.code if refusal else None,
        refusal=refusal.reason if refusal else None,
    )


def bulk_body(
    bulk: BulkAction,
    actions: Mapping[str, Action],
    skipped: Mapping[str, str],
    views: Mapping[str, QueryView | None],
) -> BulkBody:
    """A bulk action with the state of each of its queries. `skipped`: reasons by query id."""
    queries = [_query(bulk, id, actions.get(id), skipped.get(id), views.get(id)) for id in bulk.query_ids]
    return BulkBody(
        id=bulk.id,
        action=bulk.action,
        state=bulk.state.value,
        reason=bulk.why,
        actor=bulk.actor,
        request_reason=bulk.reason,
        requested_at=rfc3339(bulk.requested_at),
        ended_at=stamp(bulk.ended_at),
        drain=bulk.drain,
        max_parallel=bulk.max_parallel,
        halt_on_failure=bulk.halt_on_failure,
        counts=_counts(queries),
        queries=queries,
    )


def _counts(queries: Sequence[BulkQueryBody]) -> dict[str, int]:
    found: dict[str, int] = {}
    for query in queries:
        found[query.state] = found.get(query.state, 0) + 1
    return found


def _query(
    bulk: BulkAction, id: str, action: Action | None, skipped: str | None, view: QueryView | None
) -> BulkQueryBody:
    if action is not None:
        return BulkQueryBody(
            query_id=id,
            app=action.app,
            name=action.name,
            state=action.state.value,
            reason=action.reason,
            action_id=action.id,
        )
    waits = "waiting" if bulk.state is BulkState.RUNNING else "not_requested"
    return BulkQueryBody(
        query_id=id,
        app=view.app if view else None,
        name=view.name if view else None,
        state="skipped" if skipped else waits,
        reason=skipped or "",
        action_id=None,
    )
