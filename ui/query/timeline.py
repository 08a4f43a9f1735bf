"""Timeline of a query on the charts' time axis: runs, statuses, alerts, actions.

Pure: the server's JSON in, an ECharts option out. The text of a tooltip comes from others: ECharts escapes
what its template `{b}` inserts, and a browser test verifies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import pairwise
from typing import Any

from ui.actions import progress
from ui.kit import charts, frames, statuses, units
from ui.kit.frames import Json
from ui.kit.markup import one_line, truncate

MAX_LINE_CHARS = 160
MIN_WIDTH_SHARE = 0.003  # of the width: a narrower bar could not be hit with a pointer
ROW_HEIGHT = 26  # pixels
MARGINS = {**charts.MARGINS, "top": 6, "bottom": 30}
MAX_ALERT_ROWS = 4


@dataclass(frozen=True)
class TimelineBar:
    """From `start` to `end` (Unix seconds) on a row; `lines` is the text of the tooltip."""

    row: str
    start: float
    end: float
    color: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class TimelineData:
    """The query's detail, its alerts in this window, the window's bounds and the clock."""

    query: Json
    alerts: Sequence[Json]
    window: tuple[float, float]
    now: float
    zone: tzinfo


def with_past_events(data: TimelineData, past: Json | None) -> TimelineData:
    """The data with the lake's runs, alerts and actions added; the server's own take precedence."""
    runs, actions = data.query.get("runs") or [], data.query.get("actions") or []
    past = past or {}
    known = {run.get("run_id") for run in runs}
    older = [_past_run(run, data) for run in past.get("runs") or [] if run.get("run_id") not in known]
    fired = {_episode(alert) for alert in data.alerts}
    known_actions = {action.get("id") for action in actions}
    query = {
        **data.query,
        "runs": [*runs, *older],
        "actions": [
            *actions,
            *(action for action in past.get("actions") or [] if action.get("id") not in known_actions),
        ],
    }
    alerts = [alert for alert in past.get("alerts") or [] if _episode(alert) not in fired]
    return replace(data, query=query, alerts=[*data.alerts, *alerts])


def _past_run(run: Json, data: TimelineData) -> Json:
    """A run of the lake in the form of the server's; an unknown start or end is the first or last event."""
    start = run.get("started_at") or run.get("first_seen_at") or data.window[0]
    ended = run.get("ended_at") or run.get("last_seen_at") or start
    unknown = {"started_at": not run.get("started_at"), "ended_at": not run.get("ended_at")}
    return {**run, "started_at": start, "ended_at": ended, "unknown": unknown}


def _episode(alert: Json) -> tuple[object, int]:
    return alert.get("fingerprint"), round(units.moment(alert.get("fired_at")) or 0)


def option(data: TimelineData) -> dict[str, Any]:
    """The ECharts option."""
    start, end = data.window
    bars = [bar for bar in _bars(data) if bar.end >= start and bar.start <= end]
    rows = _rows(bars)
    return {
        "animation": False,
        "grid": charts.plot(MARGINS),
        "tooltip": {
            "trigger": "item",
            "confine": True,
            "formatter": "{b}",
            "extraCssText": "white-space: pre-line; max-width: 460px; overflow-wrap: anywhere;",
        },
        "xAxis": {"type": "time", "min": int(start * 1000), "max": int(end * 1000)},
        "yAxis": {"type": "category", "data": rows, "inverse": True, "axisTick": {"show": False},
                  "splitLine": {"show": False}},
        "series": [_bar_series(bars, data.window), _point_series(data)],
    }  # fmt: skip


def height(shown: Mapping[str, Any]) -> int:
    """Height in pixels for the option's rows."""
    return ROW_HEIGHT * len(shown["yAxis"]["data"]) + MARGINS["top"] + MARGINS["bottom"]


def _rows(bars: Sequence[TimelineBar]) -> list[str]:
    more = {bar.row for bar in bars} - {"Runs", "Status", "Alerts"}
    return ["Runs", "Status", "Alerts", *sorted(more, key=len), "Actions"]


def _bar_series(bars: Sequence[TimelineBar], window: tuple[float, float]) -> dict[str, Any]:
    return {
        "type": "lines",
        "coordinateSystem": "cartesian2d",
        "lineStyle": {"width": 13, "opacity": 0.85, "cap": "butt"},
        "emphasis": {"lineStyle": {"opacity": 1, "width": 15}},
        "data": [_bar_item(bar, window) for bar in bars],
    }


def _bar_item(bar: TimelineBar, window: tuple[float, float]) -> dict[str, Any]:
    shortest = MIN_WIDTH_SHARE * (window[1] - window[0])
    start = min(max(bar.start, window[0]), window[1] - shortest)
    end = max(min(bar.end, window[1]), start + shortest)
    return {
        "name": _tooltip(bar.lines),
        "coords": [[int(start * 1000), bar.row], [int(end * 1000), bar.row]],
        "lineStyle": {"color": bar.color},
    }


def _point_series(data: TimelineData) -> dict[str, Any]:
    start, end = data.window
    actions = [
        (units.moment(action.get("requested_at")), action) for action in data.query.get("actions") or []
    ]
    return {
        "type": "scatter",
        "symbol": "diamond",
        "symbolSize": 15,
        "data": [_point(at, action, data) for at, action in actions if at is not None and start <= at <= end],
    }


def _point(at: float, action: Json, data: TimelineData) -> dict[str, Any]:
    style = statuses.action_state(action.get("state"))
    lines = (
        _clock(at, data),
        progress.request_sentence(action),
        f"{style.label}: {frames.outcome(action)}",
    )
    return {
        "name": _tooltip(lines),
        "value": [int(at * 1000), "Actions"],
        "itemStyle": {"color": style.hex, "borderColor": style.hex},
    }


def _bars(data: TimelineData) -> Iterable[TimelineBar]:
    yield from _runs(data)
    yield from _statuses(data)
    yield from _alerts(data)


def _runs(data: TimelineData) -> Iterable[TimelineBar]:
    for run in data.query.get("runs") or []:
        start = units.moment(run.get("started_at"))
        ended = units.moment(run.get("ended_at"))
        if start is not None:
            end = data.now if ended is None else ended
            unknown = run.get("unknown") or {}  # only in runs of the lake
            style = statuses.status(
                run.get("end") or ("end unknown" if unknown else frames.open_end(data.query))
            )
            batches = ""
            if "first_batch_id" in run:  # the lake does not have it
                batches = f"batches {_whole(run['first_batch_id'])} to {_whole(run.get('last_batch_id'))}"
            head = f"Run {str(run.get('run_id') or '')[:8]}: {style.label.lower()}"
            lines = (head, _lasted(start, ended, unknown, data), batches, _why(run.get("failure")))
            yield TimelineBar("Runs", start, end, style.hex, lines)


def _lasted(start: float, ended: float | None, unknown: Json, data: TimelineData) -> str:
    if not any(unknown.values()):
        return _period(start, ended, data)
    begun = "started before" if unknown.get("started_at") else "started"
    over = "last seen" if unknown.get("ended_at") else "ended"
    return f"{begun} {_clock(start, data)}, {over} {_clock(data.now if ended is None else ended, data)}"


def _statuses(data: TimelineData) -> Iterable[TimelineBar]:
    seen = [(units.moment(change.get("at")), change) for change in data.query.get("changes") or []]
    changes = sorted(((at, change) for at, change in seen if at is not None), key=lambda pair: pair[0])
    for (start, change), (end, _) in pairwise([*changes, (data.now, {})]):
        style = statuses.status(change.get("status"))
        lines = (
            style.label,
            _period(start, None if end == data.now else end, data),
            change.get("reason") or "",
        )
        yield TimelineBar("Status", start, end, style.hex, lines)


def _alerts(data: TimelineData) -> Iterable[TimelineBar]:
    """Alerts that fire at the same time are on rows below each other."""
    free_from: list[float] = []  # of each row, the end of its last bar
    fired = [(units.moment(alert.get("fired_at")), alert) for alert in data.alerts]
    for start, alert in sorted(((at, a) for at, a in fired if at is not None), key=lambda pair: pair[0]):
        ended = units.moment(alert.get("resolved_at"))
        end = data.now if ended is None else ended
        row = next(
            (n for n, until in enumerate(free_from) if until <= start),
            min(len(free_from), MAX_ALERT_ROWS - 1),
        )
        free_from[row : row + 1] = [end]
        style = statuses.severity(alert.get("severity"))
        summary = (alert.get("annotations") or {}).get("summary") or ""
        head = (
            f"{alert.get('name')} ({style.label.lower()})"
            if alert.get("severity")
            else str(alert.get("name"))
        )
        yield TimelineBar(
            alert_row_name(row), start, end, style.hex, (head, _period(start, ended, data), summary)
        )


def alert_row_name(number: int) -> str:
    """The first row is called Alerts; the rows below need different names that show nothing."""
    return "\u200b" * number or "Alerts"


def _period(start: float, end: float | None, data: TimelineData) -> str:
    lasted = units.span((data.now if end is None else end) - start)
    until = "now" if end is None else _clock(end, data)
    return f"{_clock(start, data)} – {until} ({lasted})"


def _clock(at: float, data: TimelineData) -> str:
    return units.clock(at, data.zone, data.now)


def _whole(value: object) -> str:
    known = units.number(value)
    return units.UNKNOWN if known is None else f"{known:.0f}"


def _why(failure: Json | None) -> str:
    parts = ((failure or {}).get("condition"), (failure or {}).get("message"))
    return ": ".join(str(part) for part in parts if part)


def _tooltip(lines: Iterable[str]) -> str:
    single = (one_line(line) for line in lines)
    return "\n".join(truncate(line, MAX_LINE_CHARS) for line in single if line)
