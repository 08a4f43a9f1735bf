"""The views of the Alerts page: what each reads and shows, and what it says when there is nothing.

`ui/app_pages/alerts.py` chooses one; reads go through `ui.kit.cached_reads`, drawing is `ui.alerting.tables` and
`ui.alerting.panels`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui.alerting import panels, selection, tables
from ui.kit import cached_reads, widgets

Json = Mapping[str, Any]

EMPTY_TEXTS = {"pending": "Nothing is pending.", "silenced": "Nothing that fires is muted."}


@dataclass(frozen=True)
class AlertFilters:
    """What the address asks for: words, and severities and apps of which none means all."""

    words: str
    severities: Sequence[str] = ()
    apps: Sequence[str] = ()

    def of(self, alerts: Sequence[Json]) -> list[Json]:
        return selection.matching(alerts, self.words, severity=self.severities, app=self.apps)


@dataclass(frozen=True)
class AlertsSnapshot:
    """What was read for one drawing of the page: alerts, silences and when (Unix seconds)."""

    alerts: Sequence[Json]
    silences: Sequence[Json]
    now: float

    def silences_by_id(self) -> dict[str, Json]:
        return {str(one.get("id")): one for one in self.silences}

    def of_view(self, view: str) -> list[Json]:
        return selection.of_view(self.alerts, view)


def draw(view: str, seen: AlertsSnapshot, filters: AlertFilters, narrow: bool) -> None:
    """The chosen view; `narrow` beside an alert's detail."""
    further: dict[str, Callable[[], None]] = {
        "history": lambda: _history(seen, filters, narrow),
        "silences": lambda: _silences(seen, filters.words),
        "notifications": lambda: _notifications(seen, filters.words),
    }
    further.get(view, lambda: _alerts(view, seen, filters, narrow))()


def counts(seen: AlertsSnapshot, view: str) -> dict[str, int | None]:
    """How many there are in each view, whatever the filters hide; None where the server does not say."""
    seconds = panels.period_seconds()
    past = cached_reads.alert_history(seconds, patient=view != "history").body
    notes = cached_reads.notifications(patient=view != "notifications").body
    told = None if notes is None else len(_recent(notes, seen.now))
    return {
        **{name: len(seen.of_view(name)) for name in ("firing", "pending", "silenced")},
        "history": None if past is None else len(past.get("alerts", [])),
        "silences": sum(one.get("state") != "expired" for one in seen.silences),
        "notifications": told,
    }


def _recent(notes: Json, now: float) -> list[Json]:
    return selection.newer_than(notes.get("notifications", []), panels.period_seconds(), now)


def _alerts(view: str, seen: AlertsSnapshot, filters: AlertFilters, narrow: bool) -> None:
    of_view = seen.of_view(view)
    shown = filters.of(of_view)
    if shown:
        tables.alerts(view, shown, seen.silences_by_id(), narrow, seen.now)
    elif of_view:
        st.caption(f"None of {len(of_view)} matches the filters.")
    elif view == "firing":
        panels.no_firing_alerts(len(seen.of_view("silenced")), seen.of_view("resolved"), seen.now)
    else:
        st.caption(EMPTY_TEXTS[view])


def _history(seen: AlertsSnapshot, filters: AlertFilters, narrow: bool) -> None:
    known = (cached_reads.alert_history(panels.period_seconds()).body or {}).get("alerts", [])
    shown = filters.of(known)
    panels.truncation_notice(known)
    if shown:
        tables.history(shown, narrow, seen.now)
    else:
        st.caption("No alert that fired in this time matches.")


def _notifications(seen: AlertsSnapshot, words: str) -> None:
    body = cached_reads.notifications().body or {}
    recent = _recent(body, seen.now)
    panels.truncation_notice(recent)
    shown = selection.matching_text(recent, words, "receiver", "words", "group_key", "outcome")
    if shown:
        tables.notifications(shown)
    else:
        st.caption("No notification of this time matches.")


def _silences(seen: AlertsSnapshot, words: str) -> None:
    shown = selection.matching_text(seen.silences, words, "text", "comment", "created_by", "state", "id")
    if shown:
        tables.silences(shown, cached_reads.role(), seen.now)
    else:
        st.caption("No silence matches." if seen.silences else "Nothing is silenced.")


def draw_detail(fingerprint: str, seen: AlertsSnapshot) -> None:
    """The alert of the address, next to the view."""
    reading = cached_reads.alert(fingerprint)
    if reading.body:
        panels.detail(reading.body, seen.silences_by_id(), cached_reads.role(), seen.now)
    elif reading.kind == "missing":
        panels.unknown_alert()
    else:
        widgets.banner(reading)
