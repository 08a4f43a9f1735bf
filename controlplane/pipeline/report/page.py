"""Render the report as one HTML file that needs no network; all names are escaped.

Called by `controlplane history report` with the result of `controlplane.pipeline.report.report_stats`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controlplane.html_pages import page_environment
from controlplane.pipeline.report import plots

Json = dict[str, Any]
MAX_WORST, MAX_RESTARTED, MAX_GROWING, MAX_BUSIEST = 20, 10, 8, 15


def render_html(report: Json) -> str:
    """Render the page."""
    from markupsafe import Markup

    environment = page_environment(Path(__file__).with_name("templates"))
    more: dict[str, Any] = {
        "percent": percent,
        "duration": duration,
        "short": short,
        "spark": lambda days: Markup(sparkline([day["lag"] for day in days])),
    }
    environment.filters.update(more)
    busiest = sorted(
        (item for item in report["queries"] if item["headroom"]),
        key=lambda item: -item["headroom"]["busy_share_p95"],
    )[:MAX_BUSIEST]
    growing = growing_state(report["queries"])
    return environment.get_template("report.html").render(
        report=report,
        worst=report["queries"][:MAX_WORST],
        growing=[{**item, "plot": Markup(_growth_plot(item))} for item in growing[:MAX_GROWING]],
        more_growing=max(0, len(growing) - MAX_GROWING),
        lagging=[item for item in report["queries"] if _direction(item["lag_trend"]) == "up"],
        restarted=sorted(
            (item for item in report["queries"] if item["starts"] > 1 or item["failures"]),
            key=lambda item: (-item["downtime_seconds"], -item["starts"]),
        )[:MAX_RESTARTED],
        fleet_plot=Markup(plots.attainment(report["fleet"]["days"])) if report["fleet"]["days"] else "",
        busy_plot=Markup(plots.busy(busiest)) if busiest else "",
        tight=[item for item in busiest if item["headroom"]["tight"]],
        steady=sum(
            _direction((item["state_rows"] or {}).get("trend")) == "none" for item in report["queries"]
        ),
        unknown=sum(
            bool(item["state_rows"]) and item["state_rows"]["trend"] is None for item in report["queries"]
        ),
    )


def growing_state(queries: list[Json]) -> list[Json]:
    """State figures that grow, the earliest to reach its limit first, then the fastest."""
    found = [
        {"app": query["app"], "query": query["query"], "unit": unit, "state": query[figure]}
        for query in queries
        for figure, unit in (("state_rows", "rows"), ("state_bytes", "bytes"))
        if query[figure] and _direction(query[figure]["trend"]) == "up"
    ]
    return sorted(found, key=_urgency)


def _urgency(json: Json) -> tuple[float, float]:
    until, trend = json["state"]["reached_in_days"], json["state"]["trend"]
    return (until["days"] if until else float("inf"), -trend["per_day"] / max(trend["level"], 1.0))


def _growth_plot(json: Json) -> str:
    state = json["state"]
    return plots.growth(state["series"], state["trend"], state["limit"], json["unit"])


def _direction(trend: Json | None) -> str:
    return "unknown" if trend is None else str(trend["direction"])


def short(value: float | None, unit: str = "") -> str:
    """1 234 567 → 1.2 M, and bytes → 1.2 MB."""
    if value is None:
        return "–"
    return plots.short(value) + ("B" if unit == "bytes" else "")


def percent(value: float | None) -> str:
    """0.99951 → 99.95 %; values below 1 are never rounded up to 100 %."""
    if value is None:
        return "–"
    shown = f"{100 * value:.2f}"
    return f"{'99.99' if shown == '100.00' and value < 1 else shown} %"


def duration(seconds: float | None) -> str:
    """93784 → 1 d 2 h."""
    if seconds is None:
        return "–"
    left, parts = round(seconds), []
    for size, sign in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {sign}")
    return " ".join(parts[:2]) or ("0 s" if not seconds else f"{seconds:.2g} s")


def sparkline(values: list[float | None], width: int = 110, height: int = 22) -> str:
    """An SVG line of numbers, with gaps at None."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    top = max(known) or 1.0
    step = width / max(1, len(values) - 1)
    pieces: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{place * step:.1f},{height - 2 - (height - 4) * value / top:.1f}")
    lines = "".join(f'<polyline points="{" ".join(piece)}"/>' for piece in pieces if len(piece) > 1)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="spark" {size} aria-hidden="true">{lines}</svg>'
