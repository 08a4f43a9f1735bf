"""The stretch of time that the Query page shows: up to now, or between two moments that stand in the address.

`?range=15m` follows the clock. `?from=…&to=…` (RFC 3339 or Unix seconds) stays what it is, so that a link
shows what was seen; once it is past, nothing in it changes and the page stops asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

import streamlit as st

from ui.kit import units, widgets

MAX_RANGE_SECONDS = 366 * 86_400.0  # seconds: what the server answers for at once


@dataclass(frozen=True)
class TimeRange:
    """`seconds` long, until the moment `until` (Unix seconds), or until now where that is None."""

    seconds: float
    until: float | None = None

    def bounds(self, now: float) -> tuple[float, float]:
        """From and to, in Unix seconds."""
        end = now if self.until is None else self.until
        return end - self.seconds, end

    def is_past(self, now: float) -> bool:
        """Is all that there will be in it known?"""
        return self.until is not None and self.until <= now


def from_address(params: Mapping[str, str]) -> TimeRange | None:
    """The fixed stretch that the address names; None where it names none, or not a possible one."""
    start, end = units.moment(params.get("from")), units.moment(params.get("to"))
    if start is None or end is None or not 1 <= end - start <= MAX_RANGE_SECONDS:
        return None
    return TimeRange(end - start, end)


def current() -> TimeRange:
    return from_address(st.query_params) or TimeRange(float(widgets.range_seconds()))


def picker(now: float) -> TimeRange:
    """Draws the choice and returns what is chosen."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
        fixed = from_address(st.query_params)
        if fixed is None:
            widgets.range_picker()
        else:
            st.badge(_words(fixed, now), icon=":material/lock_clock:", color="blue")
            st.button("Back to now", key="range_now", icon=":material/update:", on_click=_follow_the_clock)
        chosen = fixed or TimeRange(float(widgets.range_seconds()))
        if fixed is None:
            st.button(
                "Hold",
                key="range_hold",
                icon=":material/push_pin:",
                type="tertiary",
                help="Keep this stretch of time, and put it in the address to send it to somebody.",
                on_click=pin,
                args=(*chosen.bounds(now),),
            )
        with st.popover("From – to", type="tertiary", icon=":material/date_range:"):
            _between(chosen, now)
    return chosen


def _words(window: TimeRange, now: float) -> str:
    """The stretch as a constant text of digits, in the viewer's time zone."""
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
        st.caption("The end must come after the start, by at most a year.")
    st.button("Show", key="range_show", type="primary", disabled=not possible, on_click=pin, args=bounds)


def local(moment: float, zone: tzinfo) -> datetime:
    """As the input shows it: the viewer's clock to the minute, without a zone."""
    return datetime.fromtimestamp(moment, zone).replace(second=0, microsecond=0, tzinfo=None)


def _moment(value: datetime, zone: tzinfo) -> float:
    return value.replace(tzinfo=zone).timestamp()


def pin(start: float, end: float) -> None:
    """Put the stretch in the address (a button's callback)."""
    st.query_params["from"], st.query_params["to"] = rfc3339(start), rfc3339(end)


def rfc3339(moment: float) -> str:
    return datetime.fromtimestamp(round(moment), UTC).isoformat().replace("+00:00", "Z")


def _follow_the_clock() -> None:
    st.query_params.pop("from", None)
    st.query_params.pop("to", None)
