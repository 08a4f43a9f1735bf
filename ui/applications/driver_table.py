"""Table of all drivers, worst first. Pure; the Applications page draws it.

A row opens the driver, its version of Spark leads to Spark's UI. An unknown value is a dash, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from ui.kit import units
from ui.kit.listing import Cell, ListColumn, ListRow
from ui.kit.markup import one_line
from ui.kit.statuses import BadgeStyle

Json = Mapping[str, Any]

#: The API's states, worst first.
STATES: dict[str, BadgeStyle] = {
    "failed": BadgeStyle("Failed", "red", ":material/error:"),
    "unreachable": BadgeStyle("Unreachable", "red", ":material/link_off:"),
    "silent": BadgeStyle("Silent", "violet", ":material/sensors_off:"),
    "overloaded": BadgeStyle("Overloaded", "orange", ":material/speed:"),
    "running": BadgeStyle("Running", "green", ":material/play_circle:"),
    "ended": BadgeStyle("Ended", "gray", ":material/stop_circle:"),
}
#: States of drivers that do not run or send no heartbeat.
OVER = ("failed", "ended", "silent")
#: Ended drivers are shown for this long, in seconds.
RECENT_SECONDS = 3600.0
ALLOWED = {"all": "all", "stop": "stop only", "none": "none"}


def columns() -> list[ListColumn]:
    """The columns; the table is not sorted by clicks."""
    return [
        ListColumn("Driver", "title"),
        ListColumn("State", "tight phone"),
        ListColumn("Reason", "wide"),
        ListColumn("Queries", "number"),
        ListColumn("Load per CPU", "number"),
        ListColumn("Heap", "number"),
        ListColumn("Executors", "number"),
        ListColumn("Events dropped", "number"),
        ListColumn("Commands", "tight"),
        ListColumn("Spark", "tight"),
        ListColumn("Last heartbeat", "number"),
    ]


def shown(agents: Sequence[Json], now: float) -> list[Json]:
    """The drivers to look at, worst first: those that run, and of the others those without a successor.

    Of a driver whose application runs again, only a silent one is shown, and like an ended one for an hour.
    """
    agents = [agent for agent in agents if agent.get("state")]  # an older server reports none
    alive = {(agent.get("server"), agent.get("app")) for agent in agents if agent.get("state") not in OVER}
    kept = [agent for agent in agents if agent.get("state") not in OVER or _matters(agent, alive, now)]
    ranks = {state: rank for rank, state in enumerate(STATES)}
    return sorted(
        kept, key=lambda agent: (ranks.get(str(agent.get("state")), len(ranks)), str(agent.get("app")))
    )


def _matters(agent: Json, alive: set[tuple[Any, Any]], now: float) -> bool:
    is_silent, again = agent.get("state") == "silent", (agent.get("server"), agent.get("app")) in alive
    gone = units.since(agent.get("last_contact_at" if is_silent else "ended_at"), now)
    recent = gone is not None and gone <= RECENT_SECONDS
    return recent or not again if is_silent else recent and not again


def rows(agents: Sequence[Json]) -> list[ListRow]:
    """One row a driver, in the order given."""
    return [ListRow(str(agent.get("agent")), _cells(agent)) for agent in agents]


def _cells(agent: Json) -> list[Cell]:
    state = STATES.get(
        str(agent.get("state")), BadgeStyle(one_line(agent.get("state")), "gray", ":material/help:")
    )
    where = " · ".join(one_line(agent[name])[:8] for name in ("server", "agent") if agent.get(name))
    app = one_line(agent.get("app"))
    dropped = sum(units.number(count) or 0 for count in (agent.get("dropped") or {}).values())
    contact = units.moment(agent.get("last_contact_at"))
    return [
        {"text": app, "href": address(agent), "note": where},
        {"text": state.label, "pill": state.color},
        one_line(agent.get("reason") or ""),
        units.count(agent.get("queries")),
        _load(agent.get("host") or {}),
        _heap(agent),
        units.count(agent.get("executors")),
        units.count(dropped),
        ALLOWED.get(str(agent.get("actions")), one_line(agent.get("actions"))),
        _spark(agent),
        units.UNKNOWN if contact is None else {"at": round(contact)},
    ]


def address(agent: Json) -> str:
    """The address of this driver's panel."""
    return f"applications?{urlencode({'driver': str(agent.get('agent'))})}"


def _spark(agent: Json) -> Cell:
    """Spark's version; of a driver that runs, a link to Spark's UI. An agent sends any text as its address."""
    version, address = one_line(agent.get("spark_version") or units.UNKNOWN), str(agent.get("ui_url") or "")
    runs = agent.get("state") not in OVER
    if not runs or not address.startswith(("http://", "https://")):
        return version
    return {"text": version, "href": address, "note": "Spark UI"}


def _load(host: Json) -> str:
    load, cpus = units.number(host.get("load")), units.number(host.get("cpus"))
    return units.UNKNOWN if load is None or not cpus else units.count(load / cpus)


def _heap(agent: Json) -> str:
    used, largest = units.number(agent.get("heap_bytes")), units.number(agent.get("heap_max_bytes"))
    return units.UNKNOWN if used is None or not largest else f"{used / largest:.0%} of {units.size(largest)}"


def counts(agents: Sequence[Json]) -> str:
    """`4 drivers: 1 silent, 3 running`."""
    found = [str(agent.get("state")) for agent in agents]
    parts = [
        f"{found.count(state)} {style.label.lower()}" for state, style in STATES.items() if state in found
    ]
    return f"{len(found)} driver{'' if len(found) == 1 else 's'}: {', '.join(parts)}" if parts else ""
