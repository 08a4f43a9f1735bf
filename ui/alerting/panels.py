"""The parts of the Alerts page beside its tables: the views with their counts, one alert's detail, the silences.

`ui/app_pages/alerts.py` puts them in order. Each takes the server's JSON and draws; the buttons ask through
`ui.alerting.dialogs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.alerting import dialogs, selection
from ui.alerting import frames as alerting_frames
from ui.kit import columns, frames, statuses, units, widgets
from ui.kit.markup import plain
from ui.kit.statuses import Color

Json = Mapping[str, Any]

TILES: dict[str, tuple[str, Color]] = {
    "firing": ("Firing", "red"),
    "pending": ("Pending", "yellow"),
    "silenced": ("Silenced", "violet"),
    "history": ("History", "blue"),
    "silences": ("Silences", "blue"),
    "notifications": ("Notifications", "blue"),
}
DEFAULT_PERIOD = "24h"
MAX_LIST_ITEMS = 500  # as many episodes and notifications as `ui.kit.client` asks for
MAX_SILENCE_CARDS = 50  # that run or will run, drawn one by one
MAX_LABEL_CHARS = 500  # characters of a label's value in the detail; its table cell cannot show more
MAX_NOTIFICATIONS = 8


def view_tiles(counts: Mapping[str, int | None], chosen: str) -> None:
    """One tile a view with its count; a click chooses it. A count that is not known is a dash.

    The first one is red while something fires, chosen or not: `widgets.STYLE` knows it by its key.
    """
    with st.grid(len(TILES), min_column_width=120, gap="xsmall"):
        for view, (word, color) in TILES.items():
            st.button(
                f"{_number(counts.get(view), color, view == chosen)} {word}",
                key="tile_firing_now" if view == "firing" and counts[view] else f"tile_{view}",
                type="primary" if view == chosen else "secondary",
                width="stretch",
                on_click=open_view,
                args=(view,),
            )


def open_view(view: str) -> None:
    st.query_params["view"] = view


def _number(count: int | None, color: Color, chosen: bool) -> str:
    """In its color; gray where there is none, plain on the filled button of the chosen tile."""
    digits = units.UNKNOWN if count is None else f"{count:d}{'+' if count >= MAX_LIST_ITEMS else ''}"
    return f"**{digits}**" if chosen else f":{color if count else 'gray'}[**{digits}**]"


def period_picker() -> None:
    """How far back History and Notifications look; in the address as `?period=`."""
    st.segmented_control(
        "Period",
        list(selection.PERIODS),
        default=DEFAULT_PERIOD,
        key="period",
        bind="query-params",
        required=True,
        label_visibility="collapsed",
    )


def period_seconds() -> int:
    periods = selection.PERIODS
    return periods.get(str(st.session_state.get("period")), periods[DEFAULT_PERIOD])


def truncation_notice(items: Sequence[Json]) -> None:
    """A word where a list is as long as lists get."""
    if len(items) >= MAX_LIST_ITEMS:
        st.caption(f"Only the newest {MAX_LIST_ITEMS} are listed; those before them are not searched.")


def no_firing_alerts(muted: int, resolved: Sequence[Json], now: float) -> None:
    """The calm sentence of an empty first view, and what it was last."""
    but = f" but {muted} muted alert{'' if muted == 1 else 's'}" if muted else ""
    with st.container(border=True, gap="xsmall"):
        st.markdown(f":green[:material/check_circle:] **Nothing fires{but}.**")
        for one in resolved[:3]:
            ended = alerting_frames.ago(one.get("resolved_at"), now)
            st.caption(f"{plain(alerting_frames.name(one))} resolved {ended}: {plain(_short_summary(one))}")


def _short_summary(alert: Json) -> str:
    return dialogs.cut(alerting_frames.summary(alert), 160)


def detail(found: Json, silences: Mapping[str, Json], role: str | None, now: float) -> None:
    """Everything about one alert. `found` is the answer of `/api/v1/alerts/{fingerprint}`."""
    alert = found["alert"]
    with st.container(border=True, key="alert_detail"):
        _head(alert, now)
        _buttons(alert, role)
        widgets.definition_list(facts(alert, silences, now))
        _notes(found.get("notifications") or [], now)
        _labels(alert)


def unknown_alert() -> None:
    """An address that leads to an alert the server does not know any more."""
    with st.container(border=True, key="alert_detail"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text("The server does not know this alert.", width="stretch")
            _close()
        st.caption("It may be older than what the server keeps.")


def _close() -> None:
    st.button("Close", key="close_alert", icon=":material/close:", type="tertiary", on_click=close_detail)


def close_detail() -> None:
    st.query_params.pop("alert", None)


def _head(alert: Json, now: float) -> None:
    with st.container(gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
            st.subheader(plain(alerting_frames.name(alert)), anchor=False, width="stretch")
            _close()
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            widgets.badge(statuses.severity(alert.get("severity")))
            widgets.badge(statuses.alert_state(alert.get("state")))
            st.markdown(f"**{plain(state_duration(alert, now))}**", width="content")
        st.text(_short_summary(alert))
        if description := (alert.get("annotations") or {}).get("description"):
            st.text(dialogs.cut(description, 2000))


def state_duration(alert: Json, now: float) -> str:
    """How long it fires, holds or has been over, and since when."""
    state, zone = alert.get("state"), widgets.zone()
    at = alert.get("resolved_at") if state == "resolved" else selection.active_since(alert)
    word = {"resolved": "over for", "pending": "holds for"}.get(str(state), "for")
    return f"{word} {units.span(units.since(at, now))}, since {units.clock(at, zone, now)}"


def _buttons(alert: Json, role: str | None) -> None:
    with st.container(horizontal=True, gap="xsmall"):
        refused = selection.acknowledge_refusal(alert, role)
        dialogs.button("Acknowledge", "acknowledge", alert, ":material/check:", refused, primary=True)
        refused = selection.role_refusal(role)
        dialogs.button("Silence", "silence", alert, ":material/notifications_off:", refused)
        identity = str(alert.get("query_id") or "")
        if identity and st.button("Open query", key="open_query", icon=":material/query_stats:"):
            st.switch_page("app_pages/query.py", query_params={"query_id": identity})
        if url := selection.runbook_link((alert.get("annotations") or {}).get("runbook_url")):
            st.link_button("Runbook", url, icon=":material/menu_book:", help=plain(url))


def facts(alert: Json, silences: Mapping[str, Json], now: float) -> list[tuple[str, str]]:
    """Words and sentences of the detail; what does not apply is left out."""
    known = alert.get("acknowledged")
    runbook = (alert.get("annotations") or {}).get("runbook_url")
    rows = [
        ("Query", "/".join(str(alert[part]) for part in ("app", "query") if alert.get(part))),
        ("Reason", alert.get("reason")),
        ("Value", f"{value:g}" if (value := units.number(alert.get("value"))) is not None else ""),
        ("Acknowledged", _acknowledged(known, now) if known else ""),
        ("Muted by", alerting_frames.suppressed_by(alert, silences)),
        ("Told", _told(alert, now)),
        ("Rule", "/".join(str(alert[part]) for part in ("group", "rule") if alert.get(part))),
        ("Runbook", "" if not runbook or selection.runbook_link(runbook) else runbook),
    ]
    return [(word, dialogs.cut(sentence)) for word, sentence in rows if sentence]


def _acknowledged(known: Json, now: float) -> str:
    comment = f": {known['comment']}" if known.get("comment") else ""
    return f"{known.get('by')}, {alerting_frames.ago(known.get('at'), now)}{comment}"


def _told(alert: Json, now: float) -> str:
    words = (alert.get("notified") or {}).get("words")
    return f"{alerting_frames.notified(alert, now)}{f': {words}' if words else ''}"


def _notes(notes: Sequence[Json], now: float) -> None:
    """Told or not told, and why; newest first."""
    st.markdown("**Notifications**")
    if not notes:
        st.caption("Nobody was told of it yet, and nothing was held back.")
    with st.container(gap="xsmall"):
        for note in notes[:MAX_NOTIFICATIONS]:
            with st.container(horizontal=True, gap="small", vertical_alignment="center"):
                widgets.badge(statuses.outcome(note.get("outcome")))
                at = units.clock(note.get("at"), widgets.zone(), now)
                st.caption(plain(f"{at} {note.get('receiver')}"), width="content")
                st.text(dialogs.cut(note.get("words") or ""), width="stretch")


def _labels(alert: Json) -> None:
    labels = alert.get("labels") or {}
    table = frames.facts({key: dialogs.cut(value, MAX_LABEL_CHARS) for key, value in labels.items()})
    st.dataframe(
        table,
        key="alert_labels",
        column_config=columns.facts("Label"),
        hide_index=True,
        height=widgets.table_height(len(table)),
        row_height=widgets.ROW_HEIGHT,
        alt="Labels of this alert",
    )


def silences(items: Sequence[Json], role: str | None, now: float) -> None:
    """Those that run or will run, one by one, each with its button."""
    for one in items[:MAX_SILENCE_CARDS]:
        with (
            st.container(border=True, key=f"silence_{str(one.get('id'))[:36]}"),
            st.container(horizontal=True, vertical_alignment="center"),
        ):
            with st.container(gap="xsmall"):
                _silence_head(one, now)
                st.code(dialogs.cut(one.get("text") or "", 1000), language=None, wrap_lines=True)
            refused = selection.role_refusal(role)
            dialogs.button("Expire", "expire", one, ":material/timer_off:", refused)
    if len(items) > MAX_SILENCE_CARDS:
        st.caption(f"{len(items) - MAX_SILENCE_CARDS} more; search to find them.")


def _silence_head(silence: Json, now: float) -> None:
    covered = int(silence.get("alerts") or 0)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        widgets.badge(statuses.silence_state(silence.get("state")))
        st.markdown(f"**{covered}** firing alert{'' if covered == 1 else 's'} covered", width="content")
        st.text(dialogs.cut(silence.get("comment") or "no comment", 200))
        st.caption(plain(f"by {silence.get('created_by')} · {_runs(silence, now)}"), width="content")


def _runs(silence: Json, now: float) -> str:
    pending = silence.get("state") == "pending"
    at = silence.get("starts_at") if pending else silence.get("ends_at")
    left = units.span(max(0.0, (units.moment(at) or now) - now))
    return f"{'starts' if pending else 'ends'} in {left}, at {units.clock(at, widgets.zone(), now)}"
