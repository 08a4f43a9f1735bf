"""Small pieces that every page is made of: badges, tiles, the stale banner, the 'as of' line.

Only the constant words of this package are given to Streamlit as Markdown; what the server says goes through
`ui.kit.markup` or into `st.text` and table cells, which do not interpret it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from ui.kit import cached_reads, statuses, units
from ui.kit.markup import plain, visible
from ui.kit.statuses import BadgeStyle

DAY = 86_400  # seconds, as are the ranges
RANGES = {
    "15m": 900,
    "1h": 3600,
    "6h": 21_600,
    "24h": DAY,
    "7d": 7 * DAY,
    "30d": 30 * DAY,
    "90d": 90 * DAY,
    "1y": 365 * DAY,
}
REFRESH_INTERVALS = {"5s": 5.0, "15s": 15.0, "1m": 60.0, "off": None}
ROW_HEIGHT = 33  # pixels, of a table
MAX_TABLE_HEIGHT = 760

# Streamlit's settings carry the theme; these few rules carry what has no setting: the page's width, and tiles
# whose number stands above its word. A constant: nothing from outside may ever enter it.
STYLE = """
<style>
.stMainBlockContainer { padding-left: 1.75rem; padding-right: 1.75rem; }
[class*="st-key-tile_"] button { min-height: 58px; padding: 6px 12px; justify-content: flex-start; }
[class*="st-key-tile_"] button > div { width: 100%; justify-content: flex-start; }
[class*="st-key-tile_"] button p { display: flex; flex-direction: column; align-items: flex-start;
  line-height: 1.25; font-size: 0.8rem; opacity: 0.92; }
[class*="st-key-tile_"] button strong { font-size: 1.45rem; font-weight: 600; line-height: 1.2;
  font-variant-numeric: tabular-nums; }
.st-key-foretold { min-height: 88px; }
.st-key-tile_firing_now [data-testid="stBaseButton-primary"] { background-color: #c93a40; border-color: #c93a40; }
.stMainBlockContainer:has(.st-key-stale) :is([data-testid="stDataFrame"], [data-testid="stMetric"],
  [data-testid="stEChartsChart"], [class*="st-key-tile_"]) { opacity: 0.45; filter: grayscale(1); }
</style>
"""


def zone() -> tzinfo:
    """The viewer's own time zone; UTC where the browser does not say."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def badge(look: BadgeStyle) -> None:
    st.badge(look.word, icon=look.icon, color=look.color)


def refresh_seconds() -> float | None:
    """How often live parts run again; None when the viewer has switched it off."""
    return REFRESH_INTERVALS.get(str(st.session_state.get("refresh", "5s")), 5.0)


def refresh_picker() -> None:
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
    """How far back the charts look; in the address as `?range=`."""
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
    return RANGES.get(str(st.session_state.get("range")), RANGES["15m"])


def header(title: str) -> Any:
    """The first line of a page: its title, a slot for the 'as of' line, the refresh picker."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.title(title, anchor=False, width="content")
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            slot = st.container(width="content")
            refresh_picker()
    return slot


def as_of(reading: cached_reads.CachedRead) -> None:
    """When the numbers on this page were true, and who told them."""
    if reading.body is None:
        return
    said = reading.body.get("as_of", reading.at)
    st.caption(width="content", body=f":material/schedule: as of {units.clock(said, zone(), time.time())}")


def banner(reading: cached_reads.CachedRead) -> None:
    """A word on why the page is not up to date; nothing while it is.

    Its container is always there: what comes after keeps its place, else the table would be built anew.
    """
    with st.container():
        if reading.kind == "token":
            st.error(
                f"{plain(str(reading.error).rstrip('.'))}. Set `CONTROLPLANE_TOKEN` or "
                "`CONTROLPLANE_TOKEN_FILE` for this page's process.",
                title="The server does not accept our token",
                icon=":material/key_off:",
            )
        elif reading.stale:
            now = time.time()
            last, age = units.clock(reading.at, zone(), now), units.span(round(now - reading.at))
            with st.container(key="stale"):  # by which `STYLE` grays what is old
                st.warning(
                    f"{plain(reading.error)} What you see was true at {last}, {age} ago; the page keeps trying.",
                    title="Stale: the server is away",
                    icon=":material/cloud_off:",
                )
        elif reading.error:
            st.error(plain(reading.error), title="Nothing to show yet", icon=":material/cloud_off:")


def search_input(key: str, placeholder: str) -> str:
    """The words to look for; in the address as `?key=`."""
    words = st.text_input(
        "Search",
        key=key,
        bind="query-params",
        type="search",
        live="300ms",
        placeholder=placeholder,
        label_visibility="collapsed",
    )
    return words or ""


def filter_select(label: str, options: Sequence[str], key: str, placeholder: str) -> list[str]:
    """Some of the options, none meaning all; in the address as `?key=`."""
    return st.multiselect(
        label,
        options,
        key=key,
        bind="query-params",
        placeholder=placeholder,
        label_visibility="collapsed",
    )


def tile(label: str, value: str, note: str = "", trend: Sequence[float] | None = None, tip: str = "") -> None:
    """One number of the head of a page; the same height with and without a note."""
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
    """Tall enough for the rows, at most a screen; constant while rows come and go within that."""
    return min(ROW_HEIGHT * (max(rows, 1) + 1) + 2, MAX_TABLE_HEIGHT)


def open_clicked(
    click: str, rows: Sequence[tuple[str, str]], params: Mapping[str, str] | None = None
) -> None:
    """Go to the query whose name was clicked (a table's callback); `params` go into the address with it.

    `rows` are (name, query id) as they were on the viewer's screen. The table may have been drawn anew between
    the click and now, so the name decides; its row only among queries of the same name.
    """
    clicked = st.session_state[click]
    if query_id := chosen_id(rows, clicked["row"], clicked["label"]):
        st.switch_page("app_pages/query.py", query_params={"query_id": query_id, **(params or {})})


def chosen_id(rows: Sequence[tuple[str, str]], row: int, name: str) -> str | None:
    same = [index for index, (label, _) in enumerate(rows) if label == name]
    return rows[min(same, key=lambda index: abs(index - row))][1] if same else None


def definition_list(rows: Sequence[tuple[str, str]], width: int = 100) -> None:
    """Words and sentences in two columns; the sentences are shown as they are."""
    with st.container(gap="xsmall"):
        for word, sentence in rows:
            with st.container(horizontal=True, gap="small", wrap=False):
                st.caption(word, width=width)
                st.text(visible(sentence), width="stretch")


def status_tiles(counts: Mapping[str, int], chosen: Sequence[str], toggle: Callable[[str], None]) -> None:
    """One tile a status, worst first; retired ones only where there are some."""
    shown = {name: look for name, look in statuses.STATUSES.items() if name != "retired" or counts.get(name)}
    count_tiles(shown, counts, chosen, toggle)


def count_tiles(
    looks: Mapping[str, BadgeStyle],
    counts: Mapping[str, int],
    chosen: Sequence[str],
    toggle: Callable[[str], None],
) -> None:
    """One tile a word with its count; a click filters by it, another click lifts the filter."""
    with st.grid(len(looks), min_column_width=92, gap="xsmall"):
        for name, look in looks.items():
            st.button(
                f"{_number(counts.get(name, 0), look, name in chosen)} {look.word}",
                key=f"tile_{name}",
                type="primary" if name in chosen else "secondary",
                width="stretch",
                on_click=toggle,
                args=(name,),
            )


def _number(count: int, look: BadgeStyle, chosen: bool) -> str:
    """In the status' color; gray where there is none, plain on the filled button of a chosen tile."""
    return f"**{count:d}**" if chosen else f":{look.color if count else 'gray'}[**{count:d}**]"


def getting_started(server: str) -> None:
    """An empty fleet: how the first driver gets attached."""
    with st.container(border=True):
        st.markdown("**No query yet.** Attach the first driver; its program needs no change:")
        st.code(visible(ATTACH_COMMAND.format(server=server)), language="bash")
        st.caption("Or inside the program, before its first query starts:")
        st.code(ATTACH_IN_CODE, language="python")
        st.caption(
            "To look around first, `controlplane demo` starts a fleet of real queries with named troubles."
        )


ATTACH_COMMAND = """export CONTROLPLANE_URL={server}
export CONTROLPLANE_TOKEN_FILE=controlplane-data/agent.token
controlplane run --app my-app my_program.py"""
ATTACH_IN_CODE = """from spark_controlplane.attach import attach

attach(spark, app="my-app")"""
