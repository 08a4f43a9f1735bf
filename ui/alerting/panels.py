"""Parts of the Alerts page besides its tables: view tiles, an alert's detail, silences.

`ui/app_pages/alerts.py` puts them in order. Each takes the server's JSON and draws; the buttons open the
dialogs of `ui.alerting.dialogs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.alerting import dialogs, incident_panel, selection
from ui.alerting import frames as alerting_frames
from ui.kit import columns, frames, statuses, units, widgets
from ui.kit.markup import plain, truncate
from ui.kit.statuses import Color

Json = Mapping[str, Any]

TILES: dict[str, tuple[str, Color]] = {
    "firing": ("Firing", "red"),
    "pending": ("Pending", "yellow"),
    "suppressed": ("Suppressed", "violet"),
    "history": ("History", "blue"),
    "silences": ("Silences", "blue"),
    "notifications": ("Notifications", "blue"),
}
DEFAULT_PERIOD = "24h"
MAX_LIST_ITEMS = 500  # episodes and notifications that `ui.kit.client` requests at most
MAX_SILENCE_CARDS = 50  # active and pending silences drawn one by one
MAX_LABEL_CHARS = 500  # of a label's value in the detail; its table cell cannot show more
MAX_NOTIFICATIONS = 8


def view_tiles(counts: Mapping[str, int | None], chosen: str) -> None:
    """One tile per view with its count; a click opens it. An unknown count is an en dash.

    The first tile is red while an alert fires: `widgets.STYLE` selects it by its key.
    """
    with st.grid(len(TILES), min_column_width=120, gap="xsmall"):
        for view, (label, color) in TILES.items():
            st.button(
                f"{_number(counts.get(view), color, view == chosen)} {label}",
                key="tile_firing_now" if view == "firing" and counts[view] else f"tile_{view}",
                type="primary" if view == chosen else "secondary",
                width="stretch",
                on_click=open_view,
                args=(view,),
            )


def open_view(view: str) -> None:
    """Show this view (a button's callback)."""
    st.query_params["view"] = view


def _number(count: int | None, color: Color, chosen: bool) -> str:
    """In its color; gray for 0, plain on the filled button of the chosen tile."""
    digits = units.UNKNOWN if count is None else f"{count:d}{'+' if count >= MAX_LIST_ITEMS else ''}"
    return f"**{digits}**" if chosen else f":{color if count else 'gray'}[**{digits}**]"


def period_picker() -> None:
    """Period of History and Notifications; in the address as `?period=`."""
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
    """Length of the chosen period."""
    periods = selection.PERIODS
    return periods.get(str(st.session_state.get("period")), periods[DEFAULT_PERIOD])


def truncation_notice(items: Sequence[Json]) -> None:
    """A notice if the list has as many items as a list can have."""
    if len(items) >= MAX_LIST_ITEMS:
        st.caption(f"Only the newest {MAX_LIST_ITEMS} are listed and searched.")


def no_firing_alerts(suppressed: int, resolved: Sequence[Json], now: float) -> None:
    """Text of an empty Firing view, with the alerts that were resolved last."""
    verb = "alert is" if suppressed == 1 else "alerts are"
    rest = f" {suppressed} {verb} silenced or inhibited." if suppressed else ""
    with st.container(border=True, gap="xsmall"):
        st.markdown(f":green[:material/check_circle:] **No alert needs attention.**{rest}")
        for alert in resolved[:3]:
            ended = alerting_frames.ago(alert.get("resolved_at"), now)
            name, summary = alerting_frames.name(alert), _short_summary(alert)
            st.caption(f"{plain(name)} resolved {ended}: {plain(summary)}")


def _short_summary(alert: Json) -> str:
    return truncate(alerting_frames.summary(alert), 160)


def detail(found: Json, silences: Mapping[str, Json], role: str | None, now: float) -> None:
    """Everything about one alert. `found` is an answer of `/api/v1/alerts/{fingerprint}`."""
    alert = found["alert"]
    with st.container(border=True, key="alert_detail"):
        _head(alert, now)
        _buttons(alert, role)
        widgets.definition_list(facts(alert, silences, now))
        _notifications(found.get("notifications") or [], now)
        _labels(alert)


def unknown_alert() -> None:
    """Text for an address with an alert that the server does not have."""
    with st.container(border=True, key="alert_detail"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text("The server does not have this alert.", width="stretch")
            _close()
        st.caption("It may be older than the server's retention.")


def _close() -> None:
    st.button("Close", key="close_alert", icon=":material/close:", type="tertiary", on_click=close_detail)


def close_detail() -> None:
    """Close the detail (a button's callback)."""
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
            st.text(truncate(description, 2000))


def state_duration(alert: Json, now: float) -> str:
    """How long the alert has fired, been pending or been resolved, and since when."""
    state, zone = alert.get("state"), widgets.zone()
    at = alert.get("resolved_at") if state == "resolved" else selection.active_since(alert)
    verb = {"resolved": "resolved for", "pending": "pending for"}.get(str(state), "firing for")
    return f"{verb} {units.span(units.since(at, now))}, since {units.clock(at, zone, now)}"


def _buttons(alert: Json, role: str | None) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        refused = selection.acknowledge_refusal(alert, role)
        dialogs.button("Acknowledge", "acknowledge", alert, ":material/check:", refused, primary=True)
        refused = selection.role_refusal(role)
        dialogs.button("Silence", "silence", alert, ":material/notifications_off:", refused)
        identity = str(alert.get("query_id") or "")
        if identity:
            widgets.page_link("Open query", "query", ":material/query_stats:", query_id=identity)
        incident_panel.link_of_alert(alert)
        if url := selection.runbook_link((alert.get("annotations") or {}).get("runbook_url")):
            st.link_button("Runbook", url, icon=":material/menu_book:", help=plain(url))


def facts(alert: Json, silences: Mapping[str, Json], now: float) -> list[tuple[str, str]]:
    """Labels and sentences of the detail; what does not apply is left out."""
    known = alert.get("acknowledged")
    runbook = (alert.get("annotations") or {}).get("runbook_url")
    rows = [
        ("Query", "/".join(str(alert[part]) for part in ("app", "query") if alert.get(part))),
        ("Reason", alert.get("reason")),
        ("Value", f"{value:g}" if (value := units.number(alert.get("value"))) is not None else ""),
        ("Acknowledged", _acknowledged(known, now) if known else ""),
        ("Suppressed", alerting_frames.suppressed_by(alert, silences)),
        ("Notified", _notified(alert, silences, now)),
        ("Rule", "/".join(str(alert[part]) for part in ("group", "rule") if alert.get(part))),
        ("Runbook", "" if not runbook or selection.runbook_link(runbook) else runbook),
    ]
    return [(label, truncate(sentence, dialogs.MAX_TEXT_CHARS)) for label, sentence in rows if sentence]


def _acknowledged(known: Json, now: float) -> str:
    comment = f": {known['comment']}" if known.get("comment") else ""
    return f"{known.get('by')}, {alerting_frames.ago(known.get('at'), now)}{comment}"


def _notified(alert: Json, silences: Mapping[str, Json], now: float) -> str:
    reason = (alert.get("notified") or {}).get("reason")
    return f"{alerting_frames.notified(alert, silences, now)}{f': {reason}' if reason else ''}"


def _notifications(entries: Sequence[Json], now: float) -> None:
    """Notifications sent and suppressed with their reasons, newest first."""
    st.markdown("**Notifications**")
    if not entries:
        st.caption("No notifications yet.")
    with st.container(gap="xsmall"):
        for entry in entries[:MAX_NOTIFICATIONS]:
            with st.container(horizontal=True, gap="small", vertical_alignment="center"):
                widgets.badge(statuses.outcome(entry.get("outcome")))
                at = units.clock(entry.get("at"), widgets.zone(), now)
                st.caption(plain(f"{at} {entry.get('receiver')}"), width="content")
                st.text(truncate(entry.get("reason") or "", dialogs.MAX_TEXT_CHARS), width="stretch")


def _labels(alert: Json) -> None:
    labels = alert.get("labels") or {}
    table = frames.facts({key: truncate(value, MAX_LABEL_CHARS) for key, value in labels.items()})
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
    """Active and pending silences, one by one, each with its button."""
    for silence in items[:MAX_SILENCE_CARDS]:
        with (
            st.container(border=True, key=f"silence_{str(silence.get('id'))[:36]}"),
            st.container(horizontal=True, vertical_alignment="center"),
        ):
            with st.container(gap="xsmall"):
                _silence_head(silence, now)
                st.code(truncate(silence.get("text") or "", 1000), language=None, wrap_lines=True)
            refused = selection.role_refusal(role)
            if silence.get("alertmanager"):
                refused = f"Expire it in {silence['alertmanager']}: it silences that Alertmanager's notifications only."
            dialogs.button("Expire", "expire", silence, ":material/timer_off:", refused)
    if len(items) > MAX_SILENCE_CARDS:
        st.caption(f"{len(items) - MAX_SILENCE_CARDS} more. Search to find them.")


def _silence_head(silence: Json, now: float) -> None:
    covered = int(silence.get("alerts") or 0)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        widgets.badge(statuses.silence_state(silence.get("state")))
        st.markdown(f"**{covered}** firing alert{'' if covered == 1 else 's'} covered", width="content")
        st.text(truncate(silence.get("comment") or "no comment", 200))
        origin = f" in {silence['alertmanager']}" if silence.get("alertmanager") else ""
        st.caption(
            plain(f"by {silence.get('created_by')}{origin} · {_remaining(silence, now)}"), width="content"
        )


def _remaining(silence: Json, now: float) -> str:
    pending = silence.get("state") == "pending"
    at = silence.get("starts_at") if pending else silence.get("ends_at")
    left = units.span(max(0.0, (units.moment(at) or now) - now))
    return f"{'starts' if pending else 'ends'} in {left}, at {units.clock(at, widgets.zone(), now)}"
