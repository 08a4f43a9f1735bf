"""Routes of the Fleet page's saved views: filters, order and columns under a name, shared by everybody."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import Connection

from controlplane.api.bodies import Body
from controlplane.api.deps import CallerDep, ControlPlaneDep, body_of, body_schema
from controlplane.errors import NotFound
from controlplane.store import audit
from controlplane.store.dashboard import saved_views as rows
from controlplane.store.dashboard.saved_views import SavedView
from listeners.protocol.wire import rfc3339

router = APIRouter(prefix="/api/v1/saved-views", tags=["saved views"])
ViewName = Annotated[str, Path(max_length=80, pattern=r"^[^\x00-\x1f\x7f/]+$", description="the view's name")]


class SavedViewBody(Body):
    """A saved view. `parameters`: the query string of the Fleet page's address, without `?`."""

    name: str
    parameters: str
    saved_by: str
    saved_at: str


class SavedViewsBody(Body):
    """All saved views, by name."""

    views: list[SavedViewBody]


class SavedViewRequest(BaseModel):
    """`PUT /saved-views/{name}`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    parameters: str = Field(max_length=2000)


SavedViewRequestDep = Annotated[SavedViewRequest, Depends(body_of(SavedViewRequest))]


@router.get("", summary="Saved views of the Fleet page")
def list_saved_views(plane: ControlPlaneDep) -> SavedViewsBody:
    with plane.reading() as conn:
        return SavedViewsBody(views=[_body(view) for view in rows.all_views(conn)])


@router.put("/{name}", summary="Save a view of the Fleet page", openapi_extra=body_schema(SavedViewRequest))
def put_saved_view(
    plane: ControlPlaneDep, caller: CallerDep, name: ViewName, body: SavedViewRequestDep
) -> SavedViewBody:
    """Replaces the view of this name. 409 if there are 200 others."""
    view = SavedView(name, body.parameters, caller.actor(), plane.clock())

    def work(conn: Connection) -> None:
        rows.put(conn, view)
        detail = {"parameters": view.parameters}
        audit.record(conn, view.saved_at, view.saved_by, caller.name, "view.saved", name, detail)

    plane.writer.write(work)
    return _body(view)


@router.delete("/{name}", summary="Delete a saved view")
def delete_saved_view(plane: ControlPlaneDep, caller: CallerDep, name: ViewName) -> SavedViewsBody:
    """Answers with the views that are left; 404 if there is no such view."""

    def work(conn: Connection) -> bool:
        if found := rows.delete(conn, name):
            audit.record(conn, plane.clock(), caller.actor(), caller.name, "view.deleted", name)
        return found

    if not plane.writer.write(work):
        raise NotFound(f"there is no saved view {name}")
    return list_saved_views(plane)


def _body(view: SavedView) -> SavedViewBody:
    return SavedViewBody(**asdict(view) | {"saved_at": rfc3339(view.saved_at)})
