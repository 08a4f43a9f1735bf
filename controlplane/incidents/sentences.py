"""The extent of an incident in one sentence: the cause, and how many queries it took down. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.health.formatting import span
from controlplane.incident_model import Cause, CauseKind, IncidentMember

_USE = {
    CauseKind.CATALOG: "that use catalog",
    CauseKind.SINK: "that write to",
    CauseKind.SOURCE: "that read",
}
#: Worst status of its queries → what is known of a driver.
_DRIVER: Mapping[str, str] = {
    "failed": "died",
    "lost": "is silent",
    "unreachable": "does not answer",
    "stuck": "is stuck",
}


def sentence(cause: Cause, members: Sequence[IncidentMember]) -> str:
    """`The driver of orders died; 4 queries with it.`"""
    text = _extent(cause, members)
    up = sum(member.until is not None for member in members)
    if not up:
        return text
    return f"{text} {'All' if up == len(members) else f'{up} of them'} run again."


def _extent(cause: Cause, members: Sequence[IncidentMember]) -> str:
    queries, apps = f"{len(members)} queries", sorted({member.app for member in members})
    if cause.kind is CauseKind.DRIVER:
        worst = next((s for s in _DRIVER if any(m.status == s for m in members)), "failed")
        return f"The driver of {', '.join(apps)} {_DRIVER[worst]}; {queries} with it."
    of_apps = f"of {apps[0]}" if len(apps) == 1 else f"of {len(apps)} applications"
    began = [member.began_at for member in members]
    within = f"within {span(max(1.0, max(began) - min(began)))}"
    if cause.kind is CauseKind.HOST:
        return f"Drivers on host {cause.value} went down {within}; {queries} {of_apps} with them."
    if cause.kind is CauseKind.CONDITION:
        return f"{queries} {of_apps} failed {within} with {cause.value}."
    return f"{queries} {of_apps} {_USE[cause.kind]} {cause.value} failed {within}."
