"""Routes of supervision: the policies in force, the one that holds for a query, desired states, the ledger."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from alerts.durations import DAY_SECONDS
from controlplane.actions.transitions import NewAction
from controlplane.api.deps import (
    CallerDep,
    ControlPlaneDep,
    LedgerIdDep,
    QueryIdDep,
    body_of,
    body_schema,
    stretch,
)
from controlplane.api.render import action_body
from controlplane.api.routes.queries import view_of
from controlplane.api.supervision.bodies import (
    DesiredAnswer,
    DesiredRequest,
    ExplainBody,
    LedgerBody,
    PoliciesBody,
    PoliciesRequest,
)
from controlplane.api.supervision.render import (
    desired_body,
    entry_body,
    explain_body,
    figures,
    policies_body,
)
from controlplane.app import ControlPlane
from controlplane.model import Action, QueryStatus, QueryView
from controlplane.runtime.tokens import Token
from controlplane.store.supervision import ledger, policies
from controlplane.supervision_model import DesiredState
from listeners.protocol.wire import rfc3339

router = APIRouter(prefix="/api/v1", tags=["supervision"])
PoliciesRequestDep = Annotated[PoliciesRequest, Depends(body_of(PoliciesRequest))]
DesiredRequestDep = Annotated[DesiredRequest, Depends(body_of(DesiredRequest))]
LEDGER_SECONDS = 7 * DAY_SECONDS
#: Statuses of a query that runs or is about to.
DOWN = frozenset(
    {QueryStatus.FAILED, QueryStatus.LOST, QueryStatus.STOPPED, QueryStatus.FINISHED, QueryStatus.RETIRED}
)


@router.get("/policies", summary="The policies in force")
def get_policies(plane: ControlPlaneDep) -> PoliciesBody:
    return _policies(plane)


@router.put("/policies", summary="Put policies in force", openapi_extra=body_schema(PoliciesRequest))
def put_policies(plane: ControlPlaneDep, caller: CallerDep, body: PoliciesRequestDep) -> PoliciesBody:
    """The whole document replaces the previous one. 400 with `detail.mistakes` lists every mistake with its line."""
    plane.supervision.book.apply(body.text, caller.actor(body.actor), caller.name, body.reason)
    return _policies(plane)


def _policies(plane: ControlPlane) -> PoliciesBody:
    book = plane.supervision.book
    with plane.reading() as conn:
        history = policies.history(conn)
    found = (book.of(view) for view in plane.fleet() if view.retired_at is None)
    counts = Counter(policy.name for policy in found if policy is not None)
    return policies_body(book.document, book.policies, history, counts)


@router.get(
    "/queries/{query_id}/policy", summary="Which policy holds for a query, and what it would decide now"
)
def get_query_policy(plane: ControlPlaneDep, query_id: QueryIdDep) -> ExplainBody:
    view = view_of(plane, query_id)
    status = plane.verdicts.verdict_of(view, plane.clock()).verdict.status
    found = plane.supervision.supervisor.explain(view)
    return explain_body(view, status, plane.supervision.book.policies, found)


@router.put(
    "/queries/{query_id}/desired",
    summary="Set the desired state of a query",
    openapi_extra=body_schema(DesiredRequest),
)
def put_desired(
    plane: ControlPlaneDep, caller: CallerDep, query_id: QueryIdDep, body: DesiredRequestDep
) -> DesiredAnswer:
    """No policy starts a query whose desired state is `suspended` or `stopped`."""
    view, actor = view_of(plane, query_id), caller.actor(body.actor)
    wanted = plane.supervision.desired.set(view, DesiredState(body.state), actor, caller.name, body.reason)
    action = _towards(plane, caller, view, body) if body.act else None
    return DesiredAnswer(desired=desired_body(wanted), action=action_body(action) if action else None)


def _towards(plane: ControlPlane, caller: Token, view: QueryView, body: DesiredRequest) -> Action | None:
    """The action that brings the query to its desired state; None where it is there."""
    status = plane.verdicts.verdict_of(view, plane.clock()).verdict.status
    runs = status not in DOWN
    if runs == (body.state == DesiredState.RUNNING.value) or status is QueryStatus.RETIRED:
        return None
    kind, drain = ("stop", body.drain) if runs else ("start", False)
    actor = caller.actor(body.actor)
    wanted = NewAction(kind, actor, caller.name, drain=drain, reason=body.reason or body.state)
    return plane.actions.request(view, wanted)[0]


@router.get("/ledger", summary="Decisions of the policies, newest first")
def get_ledger(
    plane: ControlPlaneDep,
    query_id: LedgerIdDep = None,
    start: Annotated[str | None, Query(description="RFC 3339 or Unix seconds; default: a week ago")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 500,
) -> LedgerBody:
    since, _ = stretch(start, None, plane.clock(), LEDGER_SECONDS)
    with plane.reading() as conn:
        entries = ledger.read(conn, query_id, since, limit)
        counts = ledger.counts(conn, query_id, since)
    return LedgerBody(since=rfc3339(since), entries=list(map(entry_body, entries)), figures=figures(counts))
