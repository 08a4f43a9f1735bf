"""Which actions a query allows, why not, and what an action would do.

Pure; the server decides again when it gets the request. The Query page uses it for the state of its buttons,
`ui.actions.dialogs` for the text of the confirmation.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ui.kit import frames, units
from ui.kit.statuses import ENDED_STATUSES

Json = Mapping[str, Any]

ACTIONS = ("restart", "stop", "start")
#: Sets a desired state -> the action that brings the query there.
ACTION_OF = {"suspend": "stop", "resume": "start"}
MAX_ALERT_NAMES = 4


def refusals(query: Json, role: str | None) -> dict[str, str | None]:
    """Each action that the query's page offers with its `refusal`."""
    last = "resume" if query.get("desired") == "suspended" else "suspend"
    return {action: refusal(action, query, role) for action in (*ACTIONS, last)}


def refusal(action: str, query: Json, role: str | None) -> str | None:
    """Why the action cannot be requested now, in one sentence; None if it can."""
    if action in ACTION_OF:  # the desired state can be set whatever the query does
        return role_refusal(role) or _retired(query) or _under_way(query)
    return role_refusal(role) or _never(action, query) or _not_now(action, query)


def no_action(action: str, query: Json) -> str | None:
    """Why `suspend` or `resume` sets the desired state alone, in one sentence; None if it also acts."""
    needed = ACTION_OF[action]
    return _never(needed, query) or _not_now(needed, query)


def role_refusal(role: str | None, what: str = "Actions") -> str | None:
    """Why the viewer's role does not allow `what` (a plural noun); None if it does or the role is unknown."""
    if role in (None, "operator", "admin"):  # unknown: let the server decide
        return None
    return f"Your role is {role}. {what} require the role operator."


def _never(action: str, query: Json) -> str | None:
    """What the driver, the query's status or its writer rule out permanently."""
    allowed = query.get("actions_allowed")
    restart = query.get("restart") or {}
    if retired := _retired(query):
        return retired
    if allowed == "none":
        return "The driver forbids all actions (CONTROLPLANE_ACTIONS=none)."
    if allowed == "stop" and action != "stop":
        return "The driver allows stops only (CONTROLPLANE_ACTIONS=stop)."
    if action != "stop" and restart.get("how") == "needs_factory":
        return f"Needs a factory: {restart.get('reason') or 'the writer of the query cannot be reused'}"
    return None


def _retired(query: Json) -> str | None:
    return "The query is retired." if query.get("status") == "retired" else None


def no_start_after_stop(query: Json) -> str | None:
    """Why the query could not be started again after a stop, in sentences; None if it could."""
    refusal, restart = _never("start", query), query.get("restart") or {}
    if refusal and restart.get("how") == "needs_factory" and restart.get("reason"):
        refusal = f"{str(restart['reason'])[:1].upper()}{str(restart['reason'])[1:]}."
    return f"The query cannot be started again from here. {refusal}" if refusal else None


def _not_now(action: str, query: Json) -> str | None:
    status = query.get("status")
    if under_way := _under_way(query):
        return under_way
    if reason := query.get("no_driver"):
        return str(reason)
    ended = status in ENDED_STATUSES or bool(query.get("vanished"))
    if status == "lost" and not query.get("vanished"):
        return "The driver sends no heartbeats, so it cannot carry out an action."
    if action == "stop" and ended:
        return "The query is not running."
    if action == "start" and not ended:
        return "The query is already running."
    return None


def _under_way(query: Json) -> str | None:
    action = query.get("action")
    if not action:
        return None
    return f"Another action is under way: {action.get('action')}, requested by {action.get('actor')}."


@dataclass(frozen=True)
class QueryActivity:
    """State of a query when a confirmation opens, beyond its own JSON.

    `alerts`: names of its firing alerts. `batch_age`: seconds that the batch has run, None if unknown, 0 if
    no batch runs.
    """

    alerts: tuple[str, ...] = ()
    batch_age: float | None = None


def consequences(
    action: str, query: Json, drain: bool, activity: QueryActivity | None = None
) -> list[tuple[str, str]]:
    """What the action will do, as pairs of a label and a sentence, for the confirmation."""
    if action in ACTION_OF:
        desired, alone = ("Desired state", _DESIRED[action]), no_action(action, query)
        if alone is not None:
            return [desired, ("Now", f"Nothing else is done. {alone}")]
        return [desired, *consequences(ACTION_OF[action], query, drain, activity)]
    activity = activity or QueryActivity()
    rows = [("Driver", _driver(query))]
    if query.get("status") not in ENDED_STATUSES:
        rows.append(("Running batch", _running_batch(query, drain, activity)))
    rows.append(("Backlog", _backlog(action, query)))
    if action == "stop":
        rows += [
            ("Checkpoint", _checkpoint(query)),
            ("Afterwards", _afterwards(query)),
        ]
    else:
        rows += [
            ("Expected cost", restart_cost(action, query)),
            ("Resumes", _resumes(query)),
            ("Started by", _started_by(query)),
            ("Done when", _DONE),
        ]
    return [*rows, ("Alerts", _alerts(action, activity.alerts))]


_DESIRED = {
    "suspend": "suspended. No policy starts the query until it is resumed or started.",
    "resume": "running. Policies supervise the query again.",
}
_DONE = "A newer batch is committed, or the first trigger finds no new data."


def _driver(query: Json) -> str:
    agent, spark = str(query.get("agent") or "")[:8], query.get("spark_version")
    known = [f"application {query.get('app')}", agent and f"agent {agent}", spark and f"Spark {spark}"]
    return ", ".join(part for part in known if part)


def _running_batch(query: Json, drain: bool, activity: QueryActivity) -> str:
    last = units.number(query.get("batch_id"))
    name = "A running batch" if last is None else f"Batch {last + 1:.0f}"
    if activity.batch_age == 0:
        return "No batch runs now. A batch that has started by then is cancelled, unless you drain."
    age = "" if activity.batch_age is None else f", which has run for {units.span(activity.batch_age)},"
    if drain:
        return f"{name}{age} may finish first{_last_duration(query)}. If it takes too long, it is cancelled."
    return f"{name}{age} is cancelled. Nothing of it is committed, so its rows are read and processed again."


def _last_duration(query: Json) -> str:
    duration = units.number(query.get("batch_duration_seconds"))
    return "" if duration is None else f" (the last batch took {units.span(duration)})"


def _backlog(action: str, query: Json) -> str:
    rows, age = units.number(query.get("lag_rows")), units.number(query.get("lag_seconds"))
    batches = units.number(query.get("lag_batches"))
    if rows is None and batches is None:
        return f"Unknown: {query.get('lag_unknown') or 'no source reports a latest offset'}."
    oldest = f", the oldest for {units.span(age)}" if age else ""
    backlog = units.count(batches, "batches") if rows is None else units.count(rows, "rows")
    waiting = f"{backlog} wait{oldest}."
    if action == "stop":
        return f"{waiting} The backlog grows while the query is stopped."
    return f"{waiting} They are read after the start, with the rows that arrive until then."


def restart_cost(action: str, query: Json) -> str:
    """How long the query gives no output, the rows that wait by then, and how long it reads them.

    The pause is the median of this query's last succeeded restarts or starts, the rates are those of its last batches.
    """
    past = [frames.action_seconds(other) for other in query.get("actions") or () if _is_past(action, other)]
    seconds = [each for each in past if each is not None]
    if not seconds:
        return f"Unknown: no {action} of this query is on record."
    pause = statistics.median(seconds)
    of = f"the median of {len(seconds)} {action}s" if len(seconds) > 1 else f"as the last {action} took"
    return f"About {units.span(pause)} without output ({of}).{_catch_up(query, pause)}"


def _is_past(action: str, other: Json) -> bool:
    return other.get("action") == action and other.get("state") == "succeeded"


def _catch_up(query: Json, pause: float) -> str:
    """The backlog at the end of the pause and the time to read it; nothing where a figure is unknown."""
    names = ("lag_rows", "arrival_rows_per_second", "processed_rows_per_second")
    lag, arrives, reads = (units.number(query.get(name)) for name in names)
    if lag is None or arrives is None or reads is None:
        return ""
    rows = lag + arrives * pause
    waiting = f" About {units.count(rows, 'rows')} wait by then"
    if reads <= arrives:
        return f"{waiting}; at its present rate the query does not catch up."
    return f"{waiting}, read in about {units.span(rows / (reads - arrives))} at its present rate."


def _checkpoint(query: Json) -> str:
    facts = query.get("facts") or {}
    if facts.get("checkpoint_is_temporary"):
        return "It is temporary and is deleted with the run: a later start begins anew."
    path = facts.get("checkpoint")
    if path and no_start_after_stop(query):
        return f"{path} stays."
    return f"{path} stays: a later start resumes from it." if path else "It stays; its path is unknown."


def _afterwards(query: Json) -> str:
    final = no_start_after_stop(query) is not None
    return "The query stays stopped." if final else "The query stays stopped until it is started."


def _alerts(action: str, names: Sequence[str]) -> str:
    """The firing alerts, and whether they are expected to resolve."""
    if not names:
        return "No alert fires for this query."
    firing = f"{len(names)} firing ({', '.join(names[:MAX_ALERT_NAMES])}"
    firing += ", …)" if len(names) > MAX_ALERT_NAMES else ")"
    return f"{firing}. {_EXPECTED[action]}"


_EXPECTED = {
    "stop": "Alerts about its metrics are expected to resolve, because the metrics end with the query. "
    "A requested stop raises no alert.",
    "start": "Alerts about its end are expected to resolve once it runs, alerts about a backlog once the "
    "backlog is read.",
    "restart": "Alerts about a stuck batch are expected to resolve with the new run, alerts about a backlog "
    "only once the backlog is read.",
}


def _resumes(query: Json) -> str:
    batch = units.number(query.get("batch_id"))
    known = "" if batch is None else f"after batch {batch:.0f}, "
    if known and query.get("status") not in ENDED_STATUSES:
        known = f"after its last committed batch, {batch:.0f} so far, "
    after = f"{known}from its checkpoint"
    path = (query.get("facts") or {}).get("checkpoint")
    return f"{after} {path}" if path else after


def _started_by(query: Json) -> str:
    restart = query.get("restart") or {}
    how = {
        "reuse": "the same writer, with the same arguments",
        "factory": "the factory that the program registered",
    }.get(str(restart.get("how")), "the driver decides whether it can")
    return f"{how} ({restart['reason']})" if restart.get("reason") else how


def firing_alerts_of(answer: Json | None, query_id: str) -> list[Json]:
    """Firing alerts of this query in an answer of `/api/v1/alerts`, in its order (worst first)."""
    alerts = (answer or {}).get("alerts") or []
    return [alert for alert in alerts if alert.get("state") == "firing" and alert.get("query_id") == query_id]
