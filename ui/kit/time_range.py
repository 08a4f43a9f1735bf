"""The time range of the Query page: up to now, or between two fixed times.

`?range=15m` follows the clock. `?from=…&to=…` (RFC 3339 or Unix seconds) is fixed, so that a link shows the
same data; once it is past, nothing in it changes and the page stops refreshing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

import streamlit as st

from ui.kit import statuses, units, widgets
from ui.kit.frames import Json

MAX_RANGE_SECONDS = 366 * units.DAY_SECONDS  # the longest range that the server answers for

AFTER_LAST_SECONDS = 60.0  # what follows the last progress: the end of the run, its alert


@dataclass(frozen=True)
class TimeRange:
    """`seconds` up to the time `until` (Unix seconds), or up to now if it is None."""

    seconds: float
    until: float | None = None

    def bounds(self, now: float) -> tuple[float, float]:
        """Start and end in Unix seconds."""
        end = now if self.until is None else self.until
        return end - self.seconds, end

    def is_past(self, now: float) -> bool:
        """Has the range ended, so that nothing in it changes any more?"""
        return self.until is not None and self.until <= now


def from_address(params: Mapping[str, str]) -> TimeRange | None:
    """The fixed range in the address; None if there is none or an impossible one."""
    start, end = units.moment(params.get("from")), units.moment(params.get("to"))
    if start is None or end is None or not 1 <= end - start <= MAX_RANGE_SECONDS:
        return None
    return TimeRange(end - start, end)


def current() -> TimeRange:
    """The range that the page shows."""
    return from_address(st.query_params) or TimeRange(float(widgets.range_seconds()))


def last_activity(query: Json, now: float) -> tuple[float, float] | None:
    """Start and end of the range up to the last progress of an ended query; None if that is in the default range."""
    last = units.moment(query.get("last_progress_at") or query.get("last_event_at"))
    length = widgets.RANGES["15m"]
    if query.get("status") not in statuses.NOT_RUNNING or last is None or now - last < length:
        return None
    return last + AFTER_LAST_SECONDS - length, last + AFTER_LAST_SECONDS


def picker(now: float) -> TimeRange:
    """Draw the controls and return the chosen range."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
        fixed = from_address(st.query_params)
        if fixed is None:
            widgets.range_picker()
        else:
            st.badge(_label(fixed, now), icon=":material/lock_clock:", color="blue")
            st.button("Back to now", key="range_now", icon=":material/update:", on_click=unpin)
        chosen = fixed or TimeRange(float(widgets.range_seconds()))
        if fixed is None:
            st.button(
                "Pin",
                key="range_pin",
                icon=":material/push_pin:",
                type="tertiary",
                help="Keep this time range in the address, so that a link shows the same data.",
                on_click=pin,
                args=(*chosen.bounds(now),),
            )
        with st.popover("From – to", type="tertiary", icon=":material/date_range:"):
            _between(chosen, now)
    return chosen


def _label(window: TimeRange, now: float) -> str:
    """Start and end in the viewer's time zone: digits only, so it needs no escaping."""
    start, end = window.bounds(now)
    zone = widgets.zone()
    return f"{units.clock(start, zone, now)} – {units.clock(end, zone, now)}"


def _between(window: TimeRange, now: float) -> None:
    zone = widgets.zone()
    start, end = (local(moment, zone) for moment in window.bounds(now))
    chosen_start = st.datetime_input("From", start, key="range_from", step=60)
    chosen_end = st.datetime_input("To", end, key="range_to", step=60)
    if not chosen_start or not chosen_end:
        return
    bounds = (_moment(chosen_start, zone), _moment(chosen_end, zone))
    possible = 1 <= bounds[1] - bounds[0] <= MAX_RANGE_SECONDS
    if not possible:
        st.caption("The end must be after the start, by at most 366 days.")
    st.button("Show", key="range_show", type="primary", disabled=not possible, on_click=pin, args=bounds)


def local(moment: float, zone: tzinfo) -> datetime:
    """The time as the input shows it: the viewer's clock to the minute, without a zone."""
    return datetime.fromtimestamp(moment, zone).replace(second=0, microsecond=0, tzinfo=None)


def _moment(value: datetime, zone: tzinfo) -> float:
    return value.replace(tzinfo=zone).timestamp()


def pin(start: float, end: float) -> None:
    """Put the range in the address (a button's callback)."""
    st.query_params["from"], st.query_params["to"] = to_rfc3339(start), to_rfc3339(end)


def to_rfc3339(moment: float) -> str:
    """Unix seconds as RFC 3339 in UTC, rounded to seconds."""
    return datetime.fromtimestamp(round(moment), UTC).isoformat().replace("+00:00", "Z")


def unpin() -> None:
    """Let the range follow the clock again."""
    st.query_params.pop("from", None)
    st.query_params.pop("to", None)
