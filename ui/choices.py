"""What may be asked of a query, why not, and what would happen. Pure; the server has the last word anyway.

The Query page calls it for the state of its buttons, `ui.dialogs` for the text of the confirmation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ui import units

Json = Mapping[str, Any]

ACTIONS = ("restart", "stop", "start")
ENDED = ("failed", "stopped", "finished")


def refusals(query: Json, role: str | None) -> dict[str, str | None]:
    """Each action with the reason why it cannot be asked for now."""
    return {action: why_not(action, query, role) for action in ACTIONS}


def why_not(action: str, query: Json, role: str | None) -> str | None:
    """Why this cannot be asked for now, in one sentence; None when it can."""
    return _not_yours(role) or _not_here(action, query) or _not_now(action, query)


def _not_yours(role: str | None) -> str | None:
    if role in (None, "operator", "admin"):  # unknown: let the server decide
        return None
    return f"The token of this page is a {role}'s; acting needs an operator's."


def _not_here(action: str, query: Json) -> str | None:
    """What the driver, the query's end or its writer forbid for good."""
    allowed = query.get("actions_allowed")
    restart = query.get("restart") or {}
    if query.get("status") == "retired":
        return "The query is retired."
    if allowed == "none":
        return "The driver forbids all actions (CONTROLPLANE_ACTIONS=none)."
    if allowed == "stop" and action != "stop":
        return "The driver allows stops only (CONTROLPLANE_ACTIONS=stop)."
    if action != "stop" and restart.get("how") == "needs_factory":
        return f"Needs a factory: {restart.get('reason') or 'its writer cannot be used again'}"
    return None


def _not_now(action: str, query: Json) -> str | None:
    status = query.get("status")
    if under_way := query.get("action"):
        return f"Another action is under way: {under_way.get('action')}, asked by {under_way.get('actor')}."
    if status == "lost":
        return "The driver is silent: nobody is there to carry it out."
    if action == "stop" and status in ENDED:
        return "It does not run."
    if action == "start" and status not in ENDED:
        return "It runs already."
    return None


def consequences(action: str, query: Json, drain: bool) -> list[tuple[str, str]]:
    """What will happen, as pairs of a word and a sentence; read before somebody says yes."""
    rows = [("Driver", _driver(query))]
    if query.get("status") not in ENDED:
        rows.append(("Running batch", _running_batch(drain)))
    if action == "stop":
        return [*rows, ("Afterwards", "The query stays stopped until somebody starts it.")]
    return [*rows, ("Resumes", _resumes(query)), ("Started by", _started_by(query)), ("Done when", _DONE)]


_DONE = "A newer batch is committed, or the first trigger finds no new data."


def _driver(query: Json) -> str:
    agent, spark = str(query.get("agent") or "")[:8], query.get("spark_version")
    known = [f"application {query.get('app')}", agent and f"agent {agent}", spark and f"Spark {spark}"]
    return ", ".join(part for part in known if part)


def _running_batch(drain: bool) -> str:
    if drain:
        return "Finishes first, then the query stops."
    return "Is cut off; its rows are read again by the next run."


def _resumes(query: Json) -> str:
    batch = units.number(query.get("batch_id"))
    after = "from its checkpoint" if batch is None else f"after batch {batch:.0f}, from its checkpoint"
    place = (query.get("facts") or {}).get("checkpoint")
    return f"{after} {place}" if place else after


def _started_by(query: Json) -> str:
    restart = query.get("restart") or {}
    how = {
        "reuse": "the same writer, with the same arguments",
        "factory": "the factory that the program registered",
    }.get(str(restart.get("how")), "the driver decides whether it can")
    return f"{how} ({restart['reason']})" if restart.get("reason") else how
