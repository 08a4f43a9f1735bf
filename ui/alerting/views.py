"""Views of the Alerts page: what each reads, shows, and shows when it is empty.

`ui/app_pages/alerts.py` selects one. It reads through `ui.kit.cached_reads` and draws with
`ui.alerting.tables` and `ui.alerting.panels`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui.alerting import panels, selection, tables
from ui.kit import cached_reads, widgets

Json = Mapping[str, Any]

EMPTY_TEXTS = {"pending": "No pending alerts.", "suppressed": "No firing alert is silenced or inhibited."}


@dataclass(frozen=True)
class AlertFilters:
    """The filters in the address: a search text, and severities and apps, none meaning all."""

    search: str
    severities: Sequence[str] = ()
    apps: Sequence[str] = ()

    def of(self, alerts: Sequence[Json]) -> list[Json]:
        """The alerts that match."""
        return selection.matching(alerts, self.search, severity=self.severities, app=self.apps)


@dataclass(frozen=True)
class AlertsSnapshot:
    """What was read for one drawing of the page: alerts, silences and the time (Unix seconds)."""

    alerts: Sequence[Json]
    silences: Sequence[Json]
    now: float

    def silences_by_id(self) -> dict[str, Json]:
        """The silences by their id."""
        return {str(silence.get("id")): silence for silence in self.silences}

    def of_view(self, view: str) -> list[Json]:
        """The alerts of a view."""
        return selection.of_view(self.alerts, view)


def draw(view: str, snapshot: AlertsSnapshot, filters: AlertFilters, narrow: bool) -> None:
    """Draw the view; `narrow` beside an alert's detail."""
    further: dict[str, Callable[[], None]] = {
        "history": lambda: _history(snapshot, filters, narrow),
        "silences": lambda: _silences(snapshot, filters.search),
        "notifications": lambda: _notifications(snapshot, filters.search),
    }
    further.get(view, lambda: _alerts(view, snapshot, filters, narrow))()


def counts(snapshot: AlertsSnapshot, view: str) -> dict[str, int | None]:
    """Number of items in each view, regardless of the filters; None if unknown."""
    seconds = panels.period_seconds()
    past = cached_reads.alert_history(seconds, count_only=view != "history").body
    notes = cached_reads.notifications(count_only=view != "notifications").body
    recent = None if notes is None else len(_recent(notes, snapshot.now))
    return {
        **{name: len(snapshot.of_view(name)) for name in ("firing", "pending", "suppressed")},
        "history": None if past is None else len(past.get("alerts", [])),
        "silences": sum(silence.get("state") != "expired" for silence in snapshot.silences),
        "notifications": recent,
    }


def _recent(notes: Json, now: float) -> list[Json]:
    return selection.newer_than(notes.get("notifications", []), panels.period_seconds(), now)


def _alerts(view: str, snapshot: AlertsSnapshot, filters: AlertFilters, narrow: bool) -> None:
    of_view = snapshot.of_view(view)
    shown = filters.of(of_view)
    if shown:
        tables.alerts(view, shown, snapshot.silences_by_id(), narrow, snapshot.now)
    elif of_view:
        st.caption(f"None of {len(of_view)} alerts matches the filters.")
    elif view == "firing":
        panels.no_firing_alerts(
            len(snapshot.of_view("suppressed")), snapshot.of_view("resolved"), snapshot.now
        )
    else:
        st.caption(EMPTY_TEXTS[view])


def _history(snapshot: AlertsSnapshot, filters: AlertFilters, narrow: bool) -> None:
    known = (cached_reads.alert_history(panels.period_seconds()).body or {}).get("alerts", [])
    shown = filters.of(known)
    panels.truncation_notice(known)
    if shown:
        tables.history(shown, narrow, snapshot.now)
    else:
        st.caption("No alert of this period matches.")
    if known and not narrow:
        _statistics()


def _statistics() -> None:
    rules = (cached_reads.alert_statistics(panels.period_seconds()).body or {}).get("rules", [])
    if rules:
        st.markdown("**Rules in this period**")
        tables.rule_statistics(rules)


def _notifications(snapshot: AlertsSnapshot, search: str) -> None:
    body = cached_reads.notifications().body or {}
    recent = _recent(body, snapshot.now)
    panels.truncation_notice(recent)
    shown = selection.matching_text(recent, search, "receiver", "reason", "group_key", "outcome")
    if shown:
        tables.notifications(shown)
    else:
        st.caption("No notification of this period matches.")


def _silences(snapshot: AlertsSnapshot, search: str) -> None:
    shown = selection.matching_text(snapshot.silences, search, "text", "comment", "created_by", "state", "id")
    if shown:
        tables.silences(shown, cached_reads.role(), snapshot.now)
    else:
        st.caption("No silence matches." if snapshot.silences else "No silences.")


def draw_detail(fingerprint: str, snapshot: AlertsSnapshot) -> None:
    """Draw the alert of the address, next to the view."""
    reading = cached_reads.alert(fingerprint)
    if reading.body:
        panels.detail(reading.body, snapshot.silences_by_id(), cached_reads.role(), snapshot.now)
    elif reading.kind == "missing":
        panels.unknown_alert()
    else:
        widgets.banner(reading)
