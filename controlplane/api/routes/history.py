"""The long past: where the move of events to the lake stands."""

from __future__ import annotations

from fastapi import APIRouter

from controlplane.api import render
from controlplane.api.deps import ControlPlaneDep
from controlplane.api.history_bodies import HistoryBody

router = APIRouter(prefix="/api/v1/history", tags=["history"])


@router.get("", summary="The lake, and what has moved to it")
async def history(plane: ControlPlaneDep) -> HistoryBody:
    return render.history_body(plane.history.status())
