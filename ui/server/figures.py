"""What the Server page shows, as rows of its tables and as charts. Pure.

A stage is slow where its figure is above a limit; the shipped alerts on the server have the same limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ui.kit import units
from ui.kit.frames import Json
from ui.kit.listing import Cell, ListColumn, ListRow
from ui.kit.markup import one_line
from ui.kit.series_queries import ChartPanel


@dataclass(frozen=True)
class Stage:
    """A stage of the server: the metric without `controlplane_`, and above which value it is slow."""

    label: str
    metric: str
    meaning: str
    format: Callable[[object], str]
    limit: float | None = None


STAGES = (
    Stage("Ingest queue", "ingest_waiting_events", "Events received and not yet written to the store.",
          lambda value: units.count(value, "events"), 5000.0),
    Stage("Commit", "store_commit_seconds", "Duration of the store's last commit.", units.span, 1.0),
    Stage("Window", "window_loading_queries", "Queries whose older samples a start has not loaded yet.",
          lambda value: units.count(value, "queries")),
    Stage("Judging", "judge_seconds", "Duration of the last pass over the statuses of the fleet.", units.span, 2.0),
    Stage("Slot lateness", "rule_slot_lateness_seconds", "Delay of the last evaluation of rules after its time.",
          units.span, 15.0),
    Stage("Evaluation", "rule_evaluation_seconds", "Duration of the last evaluation of the due rules.", units.span,
          10.0),
    Stage("Failed evaluations", "rule_evaluation_failures_total", "Evaluations of rules that failed since the start.",
          units.count, 0.0),
    Stage("Notifications", "notifications_sent_total", "Notifications sent since the start.", units.count),
    Stage("Failed notifications", "notifications_failed_total", "Notifications that failed since the start.",
          units.count, 0.0),
    Stage("Polls", "polls", "Requests of agents that wait for a command.", units.count),
    Stage("Actions", "open_actions", "Actions in progress.", units.count),
    Stage("Rejected events", "events_rejected_total", "Malformed lines, and lines above a quota, since the start.",
          units.count, 0.0),
    Stage("Series", "series", "Series in memory for the rules.", units.count),
    Stage("Refused samples", "series_refused_total", "Samples dropped since the start because of the limit on series.",
          units.count, 0.0),
)  # fmt: skip

STAGE_COLUMNS = (
    ListColumn("Stage", "title"),
    ListColumn("State", "tight phone"),
    ListColumn("Meaning", "wide"),
    ListColumn("Now", "number"),
)


def stages(server: Json) -> list[ListRow]:
    """One row per stage that the server reports."""
    figures = server.get("figures") or {}
    return [
        ListRow(
            stage.metric, [stage.label, _state(stage, value), _meaning(stage, value), stage.format(value)]
        )
        for stage in STAGES
        if (value := units.number(figures.get(f"controlplane_{stage.metric}"))) is not None
    ]


def is_slow(stage: Stage, value: float) -> bool:
    """Is the figure above the stage's limit?"""
    return stage.limit is not None and value > stage.limit


def _state(stage: Stage, value: float) -> Cell:
    slow = is_slow(stage, value)
    above = "Above 0" if stage.limit == 0 else "Slow"
    return {"text": above if slow else "OK", "pill": "orange" if slow else "green"}


def _meaning(stage: Stage, value: float) -> str:
    limit = "" if not stage.limit else f" The limit is {stage.format(stage.limit)}."
    return f"{stage.meaning}{limit if is_slow(stage, value) else ''}"


SERVER_COLUMNS = (
    ListColumn("Server", "title"),
    ListColumn("Role", "tight phone"),
    ListColumn("State", "wide"),
    ListColumn("Queries", "number"),
    ListColumn("Store", "number"),
    ListColumn("Since", "number"),
)


def servers(found: Sequence[Json]) -> list[ListRow]:
    """One row per server with its role; a server that does not answer has its error instead."""
    return [ListRow(str(server.get("address")), _server_cells(server)) for server in found]


def _server_cells(server: Json) -> list[Cell]:
    name = {"text": one_line(server.get("server") or server.get("address") or ""), "note": _version(server)}
    if server.get("error"):
        return [name, {"text": "No answer", "pill": "red"}, one_line(server["error"]), *[units.UNKNOWN] * 3]
    figures, active = server.get("figures") or {}, server.get("role") == "active"
    since = units.moment(server.get("since"))
    return [
        name,
        {"text": str(server.get("role") or "unknown").capitalize(), "pill": "green" if active else "blue"},
        _sentence(server),
        units.count(server.get("queries")),
        units.size(figures.get("controlplane_store_bytes")),
        units.UNKNOWN if since is None else {"at": round(since)},
    ]


def _version(server: Json) -> str:
    return f"version {one_line(server['version'])}" if server.get("version") else ""


def _sentence(server: Json) -> str:
    """`All stages keep up.`; for a standby, where the active server is."""
    if server.get("role") == "standby":
        where = server.get("active")
        return f"Standby of {one_line(where)}." if where else "Standby. No server is active."
    figures = server.get("figures") or {}
    values = [(stage, units.number(figures.get(f"controlplane_{stage.metric}"))) for stage in STAGES]
    slow = [
        stage.label for stage, value in values if stage.limit and value is not None and is_slow(stage, value)
    ]
    return f"Slow: {', '.join(slow)}." if slow else "All stages keep up."


LIMIT_COLUMNS = (
    ListColumn("Limit", "title"),
    ListColumn("State", "tight phone"),
    ListColumn("Meaning", "wide"),
    ListColumn("Now", "number"),
    ListColumn("At most", "number"),
)


def limits(server: Json) -> list[ListRow]:
    """What bounds the store and the applications, with the use and what was refused."""
    bounds, figures = server.get("limits") or {}, server.get("figures") or {}
    refused = server.get("refused") or []
    used = {
        "retention_bytes": figures.get("controlplane_store_bytes"),
        "max_queries": server.get("queries"),
        "max_agents": figures.get("controlplane_agents"),
        "max_series": figures.get("controlplane_series"),
    }
    return [
        ListRow(name, _limit_cells(name, bounds[name], used.get(name), refused))
        for name in LIMITS
        if bounds.get(name) is not None
    ]


LIMITS: Mapping[str, tuple[str, str, Callable[[object], str]]] = {
    "retention_days": ("Age of events", "Older events are deleted, or are only in the lake.",
                       lambda value: units.span((units.number(value) or 0) * units.DAY_SECONDS)),
    "retention_bytes": ("Store size", "Above it the oldest events are deleted.", units.size),
    "max_queries": ("Queries", "New queries beyond are refused.", units.count),
    "max_queries_per_app": ("Queries of an application", "New queries beyond are refused.", units.count),
    "max_agents": ("Agents", "New agents beyond are refused.", units.count),
    "max_agents_per_app": ("Agents of an application", "New agents beyond are refused.", units.count),
    "max_events_per_second_per_app": ("Events of an application", "Requests beyond are answered 429 and repeated later.",
                                      units.rate),
    "max_series": ("Series", "Samples of more series are dropped.", units.count),
}  # fmt: skip


def _limit_cells(name: str, bound: object, used: object, refused: Sequence[Json]) -> list[Cell]:
    label, meaning, text = LIMITS[name]
    hits = {one_line(item["app"]): item["count"] for item in refused if item["quota"] == name}
    named = ", ".join(f"{app} ({units.count(count)})" for app, count in sorted(hits.items()))
    now, most = units.number(used), units.number(bound) or 0.0
    near = bool(hits) or (now is not None and name.startswith("max_") and now > 0.9 * most)
    state = "Refusing" if hits else "Near" if near else "OK"
    return [
        label,
        {"text": state, "pill": "orange" if near else "green"},
        f"{meaning} Refused since the start: {named}." if hits else meaning,
        units.UNKNOWN if now is None else text(now),
        text(bound),
    ]


RECEIVER_COLUMNS = (
    ListColumn("Receiver", "title"),
    ListColumn("State", "tight phone"),
    ListColumn("Integrations", "wide"),
    ListColumn("Last delivery", "number"),
)


def receivers(found: Sequence[Json], notifications: Sequence[Json]) -> list[ListRow]:
    """One row per receiver: whether it delivers, and when it last did."""
    return [ListRow(str(item.get("name")), _receiver_cells(item, notifications)) for item in found]


def _receiver_cells(receiver: Json, notifications: Sequence[Json]) -> list[Cell]:
    integrations = receiver.get("integrations") or []
    failing = [item for item in integrations if item.get("failing_since")]
    sent = [
        at
        for item in notifications
        if item.get("receiver") == receiver.get("name")
        and item.get("outcome") == "sent"
        and (at := units.moment(item.get("at"))) is not None
    ]
    texts = [
        f"{one_line(item['name'])} fails: {one_line(item.get('error') or 'no reason')}" for item in failing
    ]
    texts += [one_line(item["name"]) for item in integrations if item not in failing]
    route = "" if receiver.get("routed") else " No route leads to it."
    return [
        one_line(receiver.get("name") or ""),
        _delivery(integrations, failing),
        f"{'; '.join(texts) or 'None: it delivers nothing.'}{route}",
        {"at": round(max(sent))} if sent else units.UNKNOWN,
    ]


TOKEN_COLUMNS = (
    ListColumn("Token", "title"),
    ListColumn("State", "tight phone"),
    ListColumn("Use", "wide"),
    ListColumn("Role"),
    ListColumn("Created", "number"),
)


def tokens(found: Sequence[Json], now: float) -> list[ListRow]:
    """One row per token, valid ones first."""
    rows = sorted(found, key=lambda token: _token_state(token, now) != VALID)
    return [ListRow(str(token.get("id")), _token_cells(token, now)) for token in rows]


VALID: Cell = {"text": "Valid", "pill": "green"}


def _token_state(token: Json, now: float) -> Cell:
    if token.get("revoked_at"):
        return {"text": "Revoked", "pill": "gray"}
    expires = units.moment(token.get("expires_at"))
    return {"text": "Expired", "pill": "gray"} if expires is not None and expires <= now else VALID


def _token_cells(token: Json, now: float) -> list[Cell]:
    expires = units.moment(token.get("expires_at"))
    created = units.moment(token.get("created_at"))
    uses = [
        f"Only for the application {one_line(token['app'])}."
        if token.get("app")
        else "For all applications.",
        "Names the person it acts for." if token.get("may_impersonate") else "",
        f"Expires in {units.span(expires - now)}." if expires is not None and expires > now else "",
    ]
    return [
        {"text": one_line(token.get("name") or ""), "note": f"{one_line(token.get('prefix') or '')}…"},
        _token_state(token, now),
        " ".join(filter(None, uses)),
        str(token.get("role") or ""),
        units.UNKNOWN if created is None else {"at": round(created)},
    ]


def _delivery(integrations: Sequence[Any], failing: Sequence[Any]) -> Cell:
    if failing:
        return {"text": "Failing", "pill": "red"}
    return {"text": "Delivers", "pill": "green"} if integrations else {"text": "Empty", "pill": "gray"}


#: Charts with their PromQL; the kind of unit is the end of the metric's name.
CHARTS: tuple[tuple[ChartPanel, str], ...] = (
    (
        ChartPanel("stored", "Events stored per second", ("events",)),
        "rate(controlplane_events_stored_total[2m])",
    ),
    (ChartPanel("waiting", "Ingest queue, events", ("events",)), "controlplane_ingest_waiting_events"),
    (ChartPanel("commit", "Commit", ("commit_seconds",)), "controlplane_store_commit_seconds"),
    (ChartPanel("judging", "Judging", ("judge_seconds",)), "controlplane_judge_seconds"),
    (
        ChartPanel("lateness", "Slot lateness", ("lateness_seconds",)),
        "controlplane_rule_slot_lateness_seconds",
    ),
    (ChartPanel("evaluation", "Evaluation", ("evaluation_seconds",)), "controlplane_rule_evaluation_seconds"),
    (ChartPanel("store", "Store size", ("store_bytes",)), "controlplane_store_bytes"),
    (ChartPanel("polls", "Polls", ("polls",)), "controlplane_polls"),
)
