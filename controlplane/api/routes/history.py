"""Route of the offload to the lake."""

from __future__ import annotations

from fastapi import APIRouter

from controlplane.api import render
from controlplane.api.deps import ControlPlaneDep
from controlplane.api.history_bodies import HistoryBody

router = APIRouter(prefix="/api/v1/history", tags=["history"])


@router.get("", summary="State of the offload to the lake")
async def history(plane: ControlPlaneDep) -> HistoryBody:
    return render.history_body(plane.history.status())
