"""Incidents as rows of tables and sentences, and which incident a query or an alert belongs to.

Pure: no Streamlit, no clock. `ui.alerting.incident_panel` draws them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Any
from urllib.parse import urlencode

from ui.alerting import frames as alerting_frames
from ui.kit import statuses, units
from ui.kit.frames import label
from ui.kit.listing import Cell, ListColumn, ListRow
from ui.kit.markup import one_line
from ui.kit.statuses import Color

Json = Mapping[str, Any]

#: Label `layer` of the alerts about a driver, which name an application and no query.
DRIVER_LAYERS = ("agent", "driver")
MAX_EVENTS = 200  # of the timeline; the bundle has all
ID_CHARS = 8
KIND_COLORS: dict[str, Color] = {
    "status": "violet",
    "alert": "red",
    "notification": "blue",
    "acknowledgement": "green",
    "action": "orange",
    "decision": "gray",
}
TRIALS: dict[str, tuple[str, Color]] = {
    "trying": ("Trying", "blue"),
    "helped": ("Helped", "green"),
    "failed": ("Failed", "red"),
}
NO_TRIAL = "None. A policy in mode act restarts one query as a trial before the others."
NO_TRIALS = {"driver": "None. Start the application: a query cannot be started without its driver."}
LIST_COLUMNS = [
    ListColumn("Incident", "title"),
    ListColumn("State", "tight phone"),
    ListColumn("What happened", "wide"),
    ListColumn("Age", "number"),
    ListColumn("Trial restart", "tight"),
    ListColumn("Notified"),
    ListColumn("Acknowledged by"),
]
MEMBER_COLUMNS = [
    ListColumn("Query", "title"),
    ListColumn("Status", "tight phone"),
    ListColumn("Last status change", "wide"),
    ListColumn("Down since", "tight"),
    ListColumn("Up again", "tight"),
]
DONE_COLUMNS = [
    ListColumn("Done", "title"),
    ListColumn("Outcome", "tight phone"),
    ListColumn("Reason", "wide"),
    ListColumn("By"),
    ListColumn("At", "tight"),
]
NOTIFIED_COLUMNS = [
    ListColumn("Receiver", "title"),
    ListColumn("Outcome", "tight phone"),
    ListColumn("Reason", "wide"),
    ListColumn("At", "tight"),
]
EVENT_COLUMNS = [
    ListColumn("Time", "title"),
    ListColumn("Kind", "tight phone"),
    ListColumn("Event", "wide most"),
]
#: Decisions after which nothing is done; the timeline has them.
QUIET_DECISIONS = ("wait", "hold", "nothing")


def in_order(incidents: Iterable[Json]) -> list[Json]:
    """Open ones first, each part newest first."""
    newest = sorted(incidents, key=lambda i: str(i.get("began_at")), reverse=True)
    return sorted(newest, key=lambda i: i.get("ended_at") is not None)


def open_ones(incidents: Iterable[Json]) -> list[Json]:
    """The incidents that have not ended."""
    return [incident for incident in in_order(incidents) if incident.get("ended_at") is None]


def of_query(incidents: Iterable[Json], query_id: str) -> Json | None:
    """The open incident in which this query is down."""
    return next((i for i in open_ones(incidents) if query_id in map(_down_id, i.get("members") or ())), None)


def _down_id(member: Json) -> str | None:
    return None if member.get("until") else str(member.get("query_id"))


def of_alert(incidents: Iterable[Json], alert: Json) -> str | None:
    """The id of the incident that an alert is about: its label; of a driver's alert the open incident of that driver."""
    labels = alert.get("labels") or {}
    if labels.get("incident"):
        return str(labels["incident"])
    if query_id := labels.get("query_id"):
        found = of_query(incidents, str(query_id))
        return str(found["id"]) if found else None
    if labels.get("layer") not in DRIVER_LAYERS:
        return None
    drivers = (i for i in open_ones(incidents) if i.get("kind") == "driver")
    return next((str(i["id"]) for i in drivers if labels.get("app") in apps(i)), None)


def to_acknowledge(detail: Json) -> Json | None:
    """The firing alert that stands for the incident: its own or its driver's, else one that nothing suppresses."""
    firing = [alert for alert in detail.get("alerts") or () if alert.get("state") == "firing"]
    own = [alert for alert in firing if not alert.get("query_id")]
    loud = [alert for alert in firing if not alert.get("inhibited_by") and not alert.get("silenced_by")]
    return next(iter([*own, *loud]), None)


def apps(incident: Json) -> list[str]:
    """The applications of its queries."""
    return sorted({str(member.get("app")) for member in incident.get("members") or ()})


def title(incident: Json) -> str:
    """`Sink /data/out`, `Driver of orders`."""
    kind = str(incident.get("kind") or "cause")
    if kind == "driver":
        return one_line(f"Driver of {', '.join(apps(incident))}")
    return one_line(f"{kind.capitalize()} {incident.get('cause')}")


def state(incident: Json) -> tuple[str, Color]:
    """Its state and the color of the badge."""
    if incident.get("ended_at"):
        return "Ended", "gray"
    down = int(incident.get("down") or 0)
    return (f"{down} down", "red") if down else ("All up again", "blue")


def lasted(incident: Json, now: float) -> str:
    """How long it has been open, or was."""
    ended, began = units.moment(incident.get("ended_at")), units.moment(incident.get("began_at"))
    return units.UNKNOWN if began is None else units.span(round(max(0.0, (ended or now) - began)))


def rows(incidents: Iterable[Json], now: float) -> list[ListRow]:
    """One row per incident, open ones first."""
    return [ListRow(str(i["id"]), _cells(i, now)) for i in in_order(incidents)]


def _cells(incident: Json, now: float) -> list[Cell]:
    text, color = state(incident)
    where = [incident.get("server"), _extent(incident)]
    ended = f"after {lasted(incident, now)}" if incident.get("ended_at") else ""
    return [
        {
            "text": title(incident),
            "href": f"incidents?{urlencode({'incident': incident['id']})}",
            "note": " · ".join(one_line(part) for part in where if part),
        },
        {"text": text, "pill": color, "note": ended},
        one_line(incident.get("sentence") or ""),
        {"at": round(units.moment(incident.get("began_at")) or 0.0)},
        _trial_cell(incident),
        ", ".join(map(one_line, incident.get("receivers") or ())) or "nobody",
        one_line((incident.get("acknowledged") or {}).get("by") or "nobody"),
    ]


def _extent(incident: Json) -> str:
    count, among = len(incident.get("members") or ()), len(apps(incident))
    return f"{count} queries of {_counted(among, 'application')}"


def _trial_cell(incident: Json) -> Cell:
    trial = incident.get("trial")
    text, color = (
        TRIALS.get(str(trial.get("state")), (str(trial.get("state")), "gray")) if trial else ("", "gray")
    )
    return {"text": text, "pill": color} if trial else units.UNKNOWN


def facts(incident: Json, now: float, zone: tzinfo) -> list[tuple[str, str]]:
    """Cause, extent, trial, and who was notified and has it, as labels and sentences."""
    names = {member.get("query_id"): label(member) for member in incident.get("members") or ()}
    taken = incident.get("acknowledged")
    receivers = ", ".join(map(one_line, incident.get("receivers") or ()))
    return [
        ("Cause", f"{incident.get('kind')} {incident.get('cause')}"),
        ("Affected", f"{_extent(incident)} ({', '.join(apps(incident))})"),
        ("Notified", receivers or "Nobody has been notified."),
        ("Acknowledged", _taken(taken, now) if taken else "Nobody has acknowledged it."),
        ("Trial restart", _trial_sentence(incident, names, now, zone)),
    ]


def _taken(taken: Json, now: float) -> str:
    comment = f": {taken['comment']}" if taken.get("comment") else ""
    return f"{taken.get('by')}, {alerting_frames.ago(taken.get('at'), now)}{comment}"


def _trial_sentence(incident: Json, names: Mapping[Any, str], now: float, zone: tzinfo) -> str:
    if (trial := incident.get("trial")) is None:
        return NO_TRIALS.get(str(incident.get("kind")), NO_TRIAL)
    what = {"trying": "is being tried", "helped": "helped", "failed": "failed again"}
    only = "" if trial.get("acted") else " (only considered, by a policy that observes)"
    name = names.get(trial.get("query_id"), "a query")
    state_text = what.get(str(trial.get("state")), str(trial.get("state")))
    return f"The restart of {name} {state_text}{only}, {units.clock(trial.get('at'), zone, now)}."


def members(detail: Json, now: float, zone: tzinfo) -> list[ListRow]:
    """One row per query: its status in the incident and its newest status change."""
    incident = detail["incident"]
    newest = {e.get("query_id"): e for e in detail.get("timeline") or () if e.get("kind") == "status"}
    return [
        ListRow(
            str(member["query_id"]),
            [
                {
                    "text": label(member),
                    "href": f"query?{urlencode({'query_id': member['query_id']})}",
                    "note": one_line(member.get("app") or ""),
                },
                _status(member),
                _sentence(member, newest.get(member.get("query_id"))),
                units.clock(member.get("began_at"), zone, now),
                units.clock(member.get("until"), zone, now),
            ],
        )
        for member in incident.get("members") or ()
    ]


def _status(member: Json) -> Cell:
    if member.get("until"):
        return {"text": "Up again", "pill": "green"}
    style = statuses.status(member.get("status"))
    return {"text": style.label, "pill": style.color}


def _sentence(member: Json, event: Json | None) -> str:
    """The sentence of the event without the query's name and the status, which the row has already."""
    name = member.get("name") or str(member.get("query_id"))[:ID_CHARS]
    text = str((event or {}).get("text") or "").removeprefix(f"{name}: ")
    return one_line(text.partition(". ")[2] or text)


def done(detail: Json, now: float, zone: tzinfo) -> list[ListRow]:
    """Actions, and decisions that became none, newest first; decisions to wait or hold are left out."""
    decisions = (d for d in detail.get("decisions") or () if not _is_quiet(d))
    found = [
        *((str(a.get("requested_at")), _action(a, now, zone)) for a in detail.get("actions") or ()),
        *((str(d.get("at")), _decision(d, now, zone)) for d in decisions),
    ]
    newest = sorted(found, key=lambda item: item[0], reverse=True)[:MAX_EVENTS]
    return [ListRow(f"done {place}", cells) for place, (_, cells) in enumerate(newest)]


def _is_quiet(entry: Json) -> bool:
    return entry.get("decision") in QUIET_DECISIONS or bool(entry.get("action_id"))


def _action(action: Json, now: float, zone: tzinfo) -> list[Cell]:
    style = statuses.action_state(action.get("state"))
    why = " ".join(str(action[name]) for name in ("request_reason", "reason") if action.get(name))
    return [
        {"text": one_line(f"{str(action.get('action')).capitalize()} {label(action)}"), "note": "Action"},
        {"text": style.label, "pill": style.color},
        one_line(why),
        one_line(action.get("actor") or ""),
        units.clock(action.get("requested_at"), zone, now),
    ]


def _decision(entry: Json, now: float, zone: tzinfo) -> list[Cell]:
    style = statuses.decision(entry.get("decision"))
    outcome = str(entry.get("outcome") or "").replace("_", " ")
    return [
        {"text": one_line(f"{style.label} {label(entry)}"), "note": f"Decision, mode {entry.get('mode')}"},
        {"text": outcome.capitalize(), "pill": "gray"},
        one_line(entry.get("why") or ""),
        one_line(f"policy {entry.get('policy')}"),
        units.clock(entry.get("at"), zone, now),
    ]


def notifications(detail: Json, now: float, zone: tzinfo) -> list[ListRow]:
    """Notifications sent and failed, newest first; those held back are left out."""
    tried = [note for note in detail.get("notifications") or () if note.get("outcome") != "not_sent"]
    return [
        ListRow(f"note {len(tried) - place}", _note(note, now, zone))
        for place, note in enumerate(tried[:MAX_EVENTS])
    ]


def _note(note: Json, now: float, zone: tzinfo) -> list[Cell]:
    style = statuses.outcome(note.get("outcome"))
    return [
        one_line(note.get("receiver") or ""),
        {"text": style.label, "pill": style.color},
        one_line(note.get("reason") or ""),
        units.clock(note.get("at"), zone, now),
    ]


def left_out(detail: Json) -> str:
    """What the tables leave out; empty for nothing."""
    quiet = sum(d.get("decision") in QUIET_DECISIONS for d in detail.get("decisions") or ())
    held = sum(note.get("outcome") == "not_sent" for note in detail.get("notifications") or ())
    parts = [f"{_counted(quiet, 'decision')} to wait or hold"] if quiet else []
    parts += [f"{_counted(held, 'notification')} not sent"] if held else []
    return f"Only the timeline has {' and '.join(parts)}." if parts else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def events(detail: Json, now: float, zone: tzinfo) -> list[ListRow]:
    """The newest events of the timeline, newest first."""
    found: Sequence[Json] = detail.get("timeline") or ()
    return [
        ListRow(
            f"event {len(found) - place}",
            [
                units.clock(event.get("at"), zone, now),
                {
                    "text": str(event.get("kind")).capitalize(),
                    "pill": KIND_COLORS.get(str(event.get("kind")), "gray"),
                },
                one_line(event.get("text") or ""),
            ],
        )
        for place, event in enumerate([*found][::-1][:MAX_EVENTS])
    ]
