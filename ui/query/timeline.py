"""What happened to a query, on the charts' time axis: its runs, its statuses, its alerts, what people asked.

Pure: the server's JSON in, an ECharts option out. The words of a hover are text from others: ECharts escapes
what its template `{b}` inserts, and a test in a real browser holds it to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import pairwise
from typing import Any

from ui.kit import frames, statuses, units
from ui.kit.frames import Json
from ui.kit.markup import one_line

MAX_LINE_CHARS = 160
MIN_WIDTH_SHARE = 0.003  # of the width: what is shorter could not be hit with a pointer
ROW_HEIGHT, AXIS_HEIGHT = 26, 44  # pixels
MAX_ALERT_ROWS = 4


@dataclass(frozen=True)
class TimelineBar:
    """From `start` to `end` (Unix seconds) on a lane; `words` are the lines of the hover."""

    lane: str
    start: float
    end: float
    color: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class TimelineData:
    """Everything that is shown: the detail of the query, and the alerts that fired for it in this window."""

    query: Json
    alerts: Sequence[Json]
    window: tuple[float, float]
    now: float
    zone: tzinfo


def with_past_events(told: TimelineData, past: Json | None) -> TimelineData:
    """The same, and what the lake tells besides: what both tell is the server's."""
    runs, actions = told.query.get("runs") or [], told.query.get("actions") or []
    past = past or {}
    known = {run.get("run_id") for run in runs}
    older = [_past_run(run, told) for run in past.get("runs") or [] if run.get("run_id") not in known]
    fired = {_episode(alert) for alert in told.alerts}
    asked = {action.get("id") for action in actions}
    query = {
        **told.query,
        "runs": [*runs, *older],
        "actions": [*actions, *(one for one in past.get("actions") or [] if one.get("id") not in asked)],
    }
    alerts = [one for one in past.get("alerts") or [] if _episode(one) not in fired]
    return replace(told, query=query, alerts=[*told.alerts, *alerts])


def _past_run(run: Json, told: TimelineData) -> Json:
    """As a run that the server knows: where its start or its end is not known, as far as it was heard of."""
    start = run.get("started_at") or run.get("heard_from") or told.window[0]
    ended = run.get("ended_at") or run.get("heard_at") or start
    unknown = {"started_at": not run.get("started_at"), "ended_at": not run.get("ended_at")}
    return {**run, "started_at": start, "ended_at": ended, "unknown": unknown}


def _episode(alert: Json) -> tuple[object, int]:
    return alert.get("fingerprint"), round(units.moment(alert.get("fired_at")) or 0)


def option(told: TimelineData) -> dict[str, Any]:
    start, end = told.window
    bars = [bar for bar in _bars(told) if bar.end >= start and bar.start <= end]
    lanes = _lanes(bars)
    return {
        "animation": False,
        "grid": {"left": 8, "right": 14, "top": 6, "bottom": 4, "containLabel": True},
        "tooltip": {
            "trigger": "item",
            "confine": True,
            "formatter": "{b}",
            "extraCssText": "white-space: pre-line; max-width: 460px; overflow-wrap: anywhere;",
        },
        "xAxis": {"type": "time", "min": int(start * 1000), "max": int(end * 1000)},
        "yAxis": {"type": "category", "data": lanes, "inverse": True, "axisTick": {"show": False},
                  "splitLine": {"show": False}},
        "series": [_bar_series(bars, told.window), _point_series(told)],
    }  # fmt: skip


def height(shown: Mapping[str, Any]) -> int:
    """Pixels that its lanes need."""
    return ROW_HEIGHT * len(shown["yAxis"]["data"]) + AXIS_HEIGHT


def _lanes(bars: Sequence[TimelineBar]) -> list[str]:
    more = {bar.lane for bar in bars} - {"Runs", "Status", "Alerts"}
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
    least = MIN_WIDTH_SHARE * (window[1] - window[0])
    start = min(max(bar.start, window[0]), window[1] - least)
    end = max(min(bar.end, window[1]), start + least)
    return {
        "name": _hover(bar.words),
        "coords": [[int(start * 1000), bar.lane], [int(end * 1000), bar.lane]],
        "lineStyle": {"color": bar.color},
    }


def _point_series(told: TimelineData) -> dict[str, Any]:
    start, end = told.window
    asked = [(units.moment(action.get("requested_at")), action) for action in told.query.get("actions") or []]
    return {
        "type": "scatter",
        "symbol": "diamond",
        "symbolSize": 15,
        "data": [_point(at, action, told) for at, action in asked if at is not None and start <= at <= end],
    }


def _point(at: float, action: Json, told: TimelineData) -> dict[str, Any]:
    look = statuses.action_state(action.get("state"))
    why = action.get("request_reason")
    asked = f"{frames.action_label(action).capitalize()}, asked by {action.get('actor') or 'somebody'}"
    words = (
        _clock(at, told),
        f"{asked}: {why}" if why else asked,
        f"{look.word}: {frames.outcome(action)}",
    )
    return {
        "name": _hover(words),
        "value": [int(at * 1000), "Actions"],
        "itemStyle": {"color": look.hex, "borderColor": look.hex},
    }


def _bars(told: TimelineData) -> Iterable[TimelineBar]:
    yield from _runs(told)
    yield from _statuses(told)
    yield from _alerts(told)


def _runs(told: TimelineData) -> Iterable[TimelineBar]:
    for run in told.query.get("runs") or []:
        start = units.moment(run.get("started_at"))
        ended = units.moment(run.get("ended_at"))
        if start is not None:
            end = told.now if ended is None else ended
            unknown = run.get("unknown") or {}  # of the far past
            look = statuses.status(run.get("end") or ("no end is known" if unknown else "running"))
            batches = ""
            if "first_batch_id" in run:  # the lake does not tell
                batches = f"batches {_whole(run['first_batch_id'])} to {_whole(run.get('last_batch_id'))}"
            head = f"Run {str(run.get('run_id') or '')[:8]}: {look.word.lower()}"
            words = (head, _lasted(start, ended, unknown, told), batches, _why(run.get("failure")))
            yield TimelineBar("Runs", start, end, look.hex, words)


def _lasted(start: float, ended: float | None, unknown: Json, told: TimelineData) -> str:
    if not any(unknown.values()):
        return _stretch(start, ended, told)
    begun = "began before" if unknown.get("started_at") else "began"
    over = "last heard of" if unknown.get("ended_at") else "ended"
    return f"{begun} {_clock(start, told)}, {over} {_clock(told.now if ended is None else ended, told)}"


def _statuses(told: TimelineData) -> Iterable[TimelineBar]:
    seen = [(units.moment(change.get("at")), change) for change in told.query.get("changes") or []]
    changes = sorted(((at, change) for at, change in seen if at is not None), key=lambda pair: pair[0])
    for (start, change), (end, _) in pairwise([*changes, (told.now, {})]):
        look = statuses.status(change.get("status"))
        words = (
            look.word,
            _stretch(start, None if end == told.now else end, told),
            change.get("reason") or "",
        )
        yield TimelineBar("Status", start, end, look.hex, words)


def _alerts(told: TimelineData) -> Iterable[TimelineBar]:
    """Alerts that fire at the same time lie on lanes below each other."""
    free: list[float] = []
    fired = [(units.moment(alert.get("fired_at")), alert) for alert in told.alerts]
    for start, alert in sorted(((at, a) for at, a in fired if at is not None), key=lambda pair: pair[0]):
        ended = units.moment(alert.get("resolved_at"))
        end = told.now if ended is None else ended
        lane = next((n for n, until in enumerate(free) if until <= start), min(len(free), MAX_ALERT_ROWS - 1))
        free[lane : lane + 1] = [end]
        look = statuses.severity(alert.get("severity"))
        summary = (alert.get("annotations") or {}).get("summary") or ""
        head = (
            f"{alert.get('name')} ({look.word.lower()})" if alert.get("severity") else str(alert.get("name"))
        )
        yield TimelineBar(
            alert_row_name(lane), start, end, look.hex, (head, _stretch(start, ended, told), summary)
        )


def alert_row_name(number: int) -> str:
    """The first is called Alerts; those below it have to differ, and show nothing."""
    return "\u200b" * number or "Alerts"


def _stretch(start: float, end: float | None, told: TimelineData) -> str:
    lasted = units.span((told.now if end is None else end) - start)
    until = "now" if end is None else _clock(end, told)
    return f"{_clock(start, told)} – {until} ({lasted})"


def _clock(at: float, told: TimelineData) -> str:
    return units.clock(at, told.zone, told.now)


def _whole(value: object) -> str:
    known = units.number(value)
    return units.UNKNOWN if known is None else f"{known:.0f}"


def _why(failure: Json | None) -> str:
    parts = ((failure or {}).get("condition"), (failure or {}).get("message"))
    return ": ".join(str(part) for part in parts if part)


def _hover(words: Iterable[str]) -> str:
    cut = (one_line(word) for word in words)
    return "\n".join(
        word if len(word) <= MAX_LINE_CHARS else word[: MAX_LINE_CHARS - 1] + "…" for word in cut if word
    )
