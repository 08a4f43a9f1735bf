"""What may be asked of a query, why not, and what would happen. Pure; the server has the last word anyway.

The Query page calls it for the state of its buttons, `ui.actions.dialogs` for the text of the confirmation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ui.kit import units

Json = Mapping[str, Any]

ACTIONS = ("restart", "stop", "start")
ENDED_STATUSES = ("failed", "stopped", "finished")


def refusals(query: Json, role: str | None) -> dict[str, str | None]:
    """Each action with the reason why it cannot be asked for now."""
    return {action: refusal(action, query, role) for action in ACTIONS}


def refusal(action: str, query: Json, role: str | None) -> str | None:
    """Why this cannot be asked for now, in one sentence; None when it can."""
    return role_refusal(role) or _not_here(action, query) or _not_now(action, query)


def role_refusal(role: str | None, doing: str = "acting") -> str | None:
    if role in (None, "operator", "admin"):  # unknown: let the server decide
        return None
    return f"The token of this page is a {role}'s; {doing} needs an operator's."


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
    ended = status in ENDED_STATUSES or bool(query.get("vanished"))
    if status == "lost" and not query.get("vanished"):
        return "The driver is silent: nobody is there to carry it out."
    if action == "stop" and ended:
        return "It does not run."
    if action == "start" and not ended:
        return "It runs already."
    return None


@dataclass(frozen=True)
class QueryActivity:
    """What is known beside the query when the question is put. `alerts` are the names of those that fire;
    `batch_age` is in seconds, None where it is not known, 0 where no batch runs."""

    alerts: tuple[str, ...] = ()
    batch_age: float | None = None


def consequences(
    action: str, query: Json, drain: bool, moment: QueryActivity | None = None
) -> list[tuple[str, str]]:
    """What will happen, as pairs of a word and a sentence; read before somebody says yes."""
    moment = moment or QueryActivity()
    rows = [("Driver", _driver(query))]
    if query.get("status") not in ENDED_STATUSES:
        rows.append(("Running batch", _running_batch(query, drain, moment)))
    rows.append(("Backlog", _backlog(action, query)))
    if action == "stop":
        rows += [("Checkpoint", _kept(query)), ("Afterwards", "The query stays stopped until it is started.")]
    else:
        rows += [("Resumes", _resumes(query)), ("Started by", _started_by(query)), ("Done when", _DONE)]
    return [*rows, ("Alerts", _alerts(action, moment.alerts))]


_DONE = "A newer batch is committed, or the first trigger finds no new data."


def _driver(query: Json) -> str:
    agent, spark = str(query.get("agent") or "")[:8], query.get("spark_version")
    known = [f"application {query.get('app')}", agent and f"agent {agent}", spark and f"Spark {spark}"]
    return ", ".join(part for part in known if part)


def _running_batch(query: Json, drain: bool, moment: QueryActivity) -> str:
    last = units.number(query.get("batch_id"))
    name = "A running batch" if last is None else f"Batch {last + 1:.0f}"
    if moment.batch_age == 0:
        return f"None runs at this moment. {name} is cut if it has begun by then, unless you drain."
    age = "" if moment.batch_age is None else f", which has run for {units.span(moment.batch_age)},"
    if drain:
        return f"{name}{age} may finish first{_usual(query)}. If it takes too long it is cut all the same."
    return f"{name}{age} is cut off. Nothing of it is committed: its rows are read and processed again."


def _usual(query: Json) -> str:
    duration = units.number(query.get("batch_duration_seconds"))
    return "" if duration is None else f"; the last one took {units.span(duration)}"


def _backlog(action: str, query: Json) -> str:
    lag, seconds = units.number(query.get("lag_rows")), units.number(query.get("lag_seconds"))
    if lag is None:
        return "Not known: no source tells how far its head is."
    age = "" if not seconds else f", the oldest for {units.span(seconds)}"
    waiting = f"{units.count(lag, 'rows')} wait{age}"
    if action == "stop":
        return f"{waiting}; it grows while the query is stopped."
    return f"{waiting}; they are read after the start, with what arrives until then."


def _kept(query: Json) -> str:
    place = (query.get("facts") or {}).get("checkpoint")
    return (
        f"{place} is kept: a later start resumes from it." if place else "It is kept; its place is not known."
    )


def _alerts(action: str, names: Sequence[str]) -> str:
    """Whether those that fire are expected to end."""
    if not names:
        return "None fires for this query."
    firing = f"{len(names)} fire{'s' if len(names) == 1 else ''} now ({', '.join(names[:MAX_ALERT_NAMES])})"
    firing += ", …" if len(names) > MAX_ALERT_NAMES else ""
    return f"{firing}. {_EXPECTED[action]}"


MAX_ALERT_NAMES = 4
_EXPECTED = {
    "stop": "Its figures end with it, so alerts about them are expected to end; a stop that somebody asked for "
    "raises none.",
    "start": "Alerts about its end are expected to end once it runs; those about a backlog when it is read.",
    "restart": "Alerts about a stuck batch are expected to end with the new run; those about a backlog only when "
    "it is read.",
}


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


def firing_alerts_of(answer: Json | None, query_id: str) -> list[Json]:
    """Those of `/api/v1/alerts` that fire and name this query, in the server's order: worst first."""
    alerts = (answer or {}).get("alerts") or []
    return [each for each in alerts if each.get("state") == "firing" and each.get("query_id") == query_id]
