"""Widgets of every page: badges, tiles, filters, the banner for stale data, the "as of" line.

Only constant text of this package reaches Streamlit as Markdown. Text of the server goes through
`ui.kit.markup`, or into `st.text` and table cells, which do not interpret it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from ui.kit import answers, statuses, units
from ui.kit.markup import plain, visible
from ui.kit.statuses import BadgeStyle

ASSETS = Path(__file__).parent.parent / "assets"
_CLICKED = "clicked_page"
_DAY = int(units.DAY_SECONDS)
#: Time ranges of the charts, in seconds.
RANGES = {
    "15m": 900,
    "1h": 3600,
    "6h": 21_600,
    "24h": _DAY,
    "7d": 7 * _DAY,
    "30d": 30 * _DAY,
    "90d": 90 * _DAY,
    "1y": 365 * _DAY,
}
#: Refresh intervals in seconds; None switches the refresh off.
REFRESH_INTERVALS = {"5s": 5.0, "15s": 15.0, "1m": 60.0, "off": None}
ROW_HEIGHT = 33  # pixels of a table row
MAX_TABLE_HEIGHT = 760  # pixels

# Streamlit's settings hold the theme; these rules hold what has no setting: the page's width, and tiles whose
# number is above its label. A constant: nothing from outside may ever enter it.
STYLE = """
<style>
.stMainBlockContainer { padding-left: 1.75rem; padding-right: 1.75rem; }
[class*="st-key-tile_"] button { min-height: 58px; padding: 6px 12px; justify-content: flex-start; }
[class*="st-key-tile_"] button > div { width: 100%; justify-content: flex-start; }
[class*="st-key-tile_"] button p { display: flex; flex-direction: column; align-items: flex-start;
  line-height: 1.25; font-size: 0.8rem; }
[class*="st-key-tile_"] button strong { font-size: 1.45rem; font-weight: 600; line-height: 1.2;
  font-variant-numeric: tabular-nums; }
.st-key-zero_tiles [class*="st-key-tile_"] button { min-height: 24px; padding: 0 6px; }
.st-key-zero_tiles [class*="st-key-tile_"] button p { flex-direction: row; gap: 4px; }
.st-key-zero_tiles [class*="st-key-tile_"] button strong { font-size: inherit; font-weight: 400; }
/* Streamlit's faded texts have a contrast of 4.2; these have at least 4.5 on both backgrounds. */
[data-testid="stCaptionContainer"] { color: light-dark(#566173, #a3adbd); opacity: 1; }
[data-testid="stExpander"] summary { opacity: 1; }
[data-testid="stExpander"] summary p { color: light-dark(#394556, #b9c3d2); }
[data-testid="stButtonGroup"] button[data-selected="true"] p { color: light-dark(#1d4fa8, #a9c8ff); }
/* The colors of the highlighted syntax have too little contrast in both themes. */
.stCode code span { color: inherit !important; }
/* A refresh neither fades what is shown nor draws Streamlit's own "running" beside the buttons of an action. */
[data-stale="true"] { opacity: 1 !important; transition: none !important; }
[data-testid="stStatusWidget"]:has([data-testid="stStatusWidgetRunningIcon"]) { visibility: hidden; }
@media (max-width: 640px) {
  [class*="st-key-tile_"] button { min-height: 34px; padding: 2px 8px; }
  [class*="st-key-tile_"] button p { align-items: center; flex-direction: row; gap: 6px; }
  [class*="st-key-tile_"] button strong { font-size: 1.05rem; }
}
.st-key-filters > div { min-width: 150px; }
.st-key-filters > div:first-child { flex: 2 1 240px; }
.st-key-start_forecast { min-height: 88px; }
.st-key-tile_firing_now [data-testid="stBaseButton-primary"] { background-color: #c93a40; border-color: #c93a40; }
.stMainBlockContainer:has(.st-key-stale) :is([data-testid="stDataFrame"], [data-testid="stMetric"],
  [data-testid="stEChartsChart"], .stBidiComponent, [class*="st-key-tile_"]) { opacity: 0.45; filter: grayscale(1); }
</style>
"""


def zone() -> tzinfo:
    """The viewer's time zone; UTC if the browser does not report one."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def page_title(*parts: str) -> None:
    """The title of the browser's tab and history: the parts from the narrowest to the widest."""
    st.set_page_config(page_title=" · ".join([*parts, "Spark control plane"]))


def breadcrumbs(*links: tuple[str, str, Mapping[str, str]], here: str) -> None:
    """Where the page is: links of (label, page, parameters) from the widest to the narrowest, then this page's name."""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="breadcrumbs"):
        for label, page, params in links:
            st.page_link(page, label=plain(label), query_params=dict(params), width="content")
            st.caption("/", width="content")
        st.caption(plain(here), width="content")


def badge(style: BadgeStyle) -> None:
    """A badge in this style."""
    st.badge(style.label, icon=style.icon, color=style.color)


def refresh_seconds() -> float | None:
    """Interval of the live parts in seconds; None if the viewer switched the refresh off."""
    return REFRESH_INTERVALS.get(str(st.session_state.get("refresh", "5s")), 5.0)


def refresh_picker() -> None:
    """Choice of the refresh interval, kept for the session."""
    st.segmented_control(
        "Refresh",
        list(REFRESH_INTERVALS),
        default="5s",
        key="refresh",
        required=True,
        label_visibility="collapsed",
        persist_state="session",
    )


def range_picker() -> None:
    """Choice of the charts' time range; in the address as `?range=`."""
    st.segmented_control(
        "Time range",
        list(RANGES),
        default="15m",
        key="range",
        bind="query-params",
        required=True,
        label_visibility="collapsed",
    )


def range_seconds() -> int:
    """Length of the chosen time range."""
    return RANGES.get(str(st.session_state.get("range")), RANGES["15m"])


def header(title: str) -> Any:
    """First line of a page: title and refresh picker. Returns the slot for the "as of" line."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.title(title, anchor=False, width="content")
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            slot = st.container(width="content")
            refresh_picker()
    return slot


def as_of(reading: answers.CachedRead) -> None:
    """The time of the page's data, by the server's clock where the answer has it."""
    if reading.body is None:
        return
    at = reading.body.get("as_of", reading.at)
    st.caption(width="content", body=f":material/schedule: as of {units.clock(at, zone(), time.time())}")


def banner(reading: answers.CachedRead) -> None:
    """Why the page is not up to date; nothing while it is.

    Its container always exists: what follows keeps its place, otherwise the table would be rebuilt.
    """
    with st.container():
        if reading.kind == "token":
            st.error(
                f"{plain(str(reading.error).rstrip('.'))}. Set `CONTROLPLANE_TOKEN` or "
                "`CONTROLPLANE_TOKEN_FILE` for this page's process.",
                title="The server rejected this page's token",
                icon=":material/key_off:",
            )
        elif reading.stale:
            now = time.time()
            last, age = units.clock(reading.at, zone(), now), units.span(round(now - reading.at))
            with st.container(key="stale"):  # `STYLE` grays the page while it is there
                st.warning(
                    f"{plain(reading.error)} This page shows the state of {last}, {age} ago, and keeps retrying.",
                    title="Stale data: the server is unreachable",
                    icon=":material/cloud_off:",
                )
        elif reading.error:
            refused = reading.kind == "refused"
            title = "The server refused the request" if refused else "No data yet"
            st.error(plain(reading.error), title=title, icon=":material/cloud_off:")
        elif left_out := (reading.body or {}).get("left_out"):
            reasons = " ".join(f"{name}: {reason}" for name, reason in left_out.items())
            title = f"Without {', '.join(left_out)}"
            st.warning(plain(reasons), title=plain(title), icon=":material/cloud_off:")


def listed(reading: answers.CachedRead, key: str, unsupported: str, empty: str) -> list[dict[str, Any]]:
    """The rows under `key` of what was read; without any, shows why."""
    if reading.kind == "missing":
        st.info(unsupported, icon=":material/update:")
        return []
    banner(reading)
    if reading.body is None:
        return []
    rows: list[dict[str, Any]] = reading.body.get(key) or []
    if not rows:
        st.caption(empty)
    return rows


def search_input(key: str, placeholder: str) -> str:
    """Text to search for; in the address as `?key=`."""
    search = st.text_input(
        "Search",
        key=key,
        bind="query-params",
        type="search",
        live="300ms",
        placeholder=placeholder,
        label_visibility="collapsed",
    )
    return search or ""


def filter_select(label: str, options: Sequence[str], key: str, placeholder: str) -> list[str]:
    """The chosen options, none meaning all; in the address as `?key=`."""
    return st.multiselect(
        label,
        options,
        key=key,
        bind="query-params",
        placeholder=placeholder,
        label_visibility="collapsed",
    )


def tile(label: str, value: str, note: str = "", trend: Sequence[float] | None = None, tip: str = "") -> None:
    """One number at the head of a page; the height is the same with and without a note."""
    st.metric(
        label,
        plain(value),
        delta_description=plain(note) or None,
        border=True,
        height="stretch",
        help=tip or None,
        chart_data=trend,
    )


def table_height(rows: int) -> int:
    """Height in pixels for this many rows, at most MAX_TABLE_HEIGHT."""
    return min(ROW_HEIGHT * (max(rows, 1) + 1) + 2, MAX_TABLE_HEIGHT)


def page_link(label: str, page: str, icon: str, **params: str) -> None:
    """A link to another page.

    Not a button with `st.switch_page`: in a fragment that refreshes itself, the rerun that the timer asks for may
    replace the change of the page.
    """
    st.page_link(f"app_pages/{page}.py", label=label, icon=icon, query_params=params, width="content")


def open_clicked(
    click: str, rows: Sequence[tuple[str, str]], params: Mapping[str, str] | None = None
) -> None:
    """Open the query whose name was clicked (a table's callback); `params` go into the address.

    `rows` are (name, query id) as they were on the viewer's screen. The table may have been redrawn since the
    click, so the name decides; the row only among queries of the same name.
    """
    clicked = st.session_state[click]
    if query_id := chosen_id(rows, clicked["row"], clicked["label"]):
        st.session_state[_CLICKED] = f"query?{urlencode({'query_id': query_id, **(params or {})})}"


def follow_click() -> None:
    """Open the page that `open_clicked` chose. A refreshing fragment draws it, instead of `st.switch_page`.

    Streamlit merges `st.switch_page` with a rerun that a timer asks for meanwhile, and the page may stay blank.
    """
    with st.container():  # always there, so that what follows keeps its place
        if href := st.session_state.pop(_CLICKED, None):
            script = (ASSETS / "navigation.js").read_text(encoding="utf-8")
            st.components.v2.component("controlplane_navigation", js=script)(data={"href": href})


def chosen_id(rows: Sequence[tuple[str, str]], row: int, name: str) -> str | None:
    """The id of the row with this name that is nearest to `row`; None if the name is gone."""
    same = [index for index, (label, _) in enumerate(rows) if label == name]
    return rows[min(same, key=lambda index: abs(index - row))][1] if same else None


def definition_list(rows: Sequence[tuple[str, str]], width: int = 100) -> None:
    """Labels and sentences in two columns; the sentences are shown verbatim."""
    with st.container(gap="xsmall"):
        for label, sentence in rows:
            with st.container(horizontal=True, gap="small", wrap=False):
                st.caption(label, width=width)
                st.text(visible(sentence), width="stretch")


def status_tiles(counts: Mapping[str, int], chosen: Sequence[str], toggle: Callable[[str], None]) -> None:
    """One tile per status, worst first; `retired` only if there are retired queries."""
    shown = {
        name: style for name, style in statuses.STATUSES.items() if name != "retired" or counts.get(name)
    }
    count_tiles(shown, counts, chosen, toggle)


def count_tiles(
    styles: Mapping[str, BadgeStyle],
    counts: Mapping[str, int],
    chosen: Sequence[str],
    toggle: Callable[[str], None],
) -> None:
    """One tile per style with its count; a click filters by it, another click removes the filter.

    Tiles with 0 are small and behind the others.
    """
    large = [name for name in styles if counts.get(name) or name in chosen]

    def draw(names: Sequence[str], size: str) -> None:
        for name in names:
            st.button(
                f"{_number(counts.get(name, 0), styles[name], name in chosen)} {styles[name].label}",
                key=f"tile_{name}",
                type="primary" if name in chosen else "secondary" if size == "large" else "tertiary",
                width="stretch" if size == "large" else "content",
                on_click=toggle,
                args=(name,),
            )

    with st.grid(max(len(large), 6), min_column_width=92, gap="xsmall"):
        draw(large, "large")
    with st.container(horizontal=True, gap="xsmall", key="zero_tiles"):
        draw([name for name in styles if name not in large], "small")


def _number(count: int, style: BadgeStyle, chosen: bool) -> str:
    """In the style's color; gray for 0, plain on the filled button of a chosen tile."""
    return f"**{count:d}**" if chosen else f":{style.color if count else 'gray'}[**{count:d}**]"


def getting_started(server: str) -> None:
    """Text of an empty fleet: how to attach the first driver."""
    with st.container(border=True):
        st.markdown("**No queries yet.** Attach the first driver. Its program needs no change:")
        st.code(visible(ATTACH_COMMAND.format(server=server)), language="bash")
        st.caption("Or attach inside the program, before its first query starts:")
        st.code(ATTACH_IN_CODE, language="python")
        st.caption(
            "To try the dashboard first, run `controlplane demo`: it starts real queries with known faults."
        )


ATTACH_COMMAND = """export CONTROLPLANE_URL={server}
export CONTROLPLANE_TOKEN_FILE=controlplane-data/agent.token
controlplane run --app my-app my_program.py"""
ATTACH_IN_CODE = """from spark_controlplane.attach import attach

attach(spark, app="my-app")"""
