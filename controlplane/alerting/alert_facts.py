"""Facts about an alert's query that its notifications state: its verdict, the probable cause, the last action.

Asked by the notifier for alerts that are about to be sent. A fact that cannot be read is left out: the notification
matters more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Protocol

from sqlalchemy.engine import Connection

from alerts.state import Alert
from controlplane.health.failures import headline
from controlplane.health.run_failure import failure_of_run
from controlplane.health.verdicts import VerdictLog
from controlplane.model import Action, QueryView, RunEnd
from controlplane.store import actions as rows

log = logging.getLogger(__name__)
#: An older action explains nothing.
MAX_ACTION_AGE_SECONDS = 86_400.0


class Views(Protocol):
    """The queries in memory; implemented by `controlplane.events.window`."""

    def view(self, query_id: str) -> QueryView | None: ...


class AlertFacts:
    """Facts by name, for one alert at a time. Thread-safe."""

    def __init__(
        self,
        views: Views,
        verdicts: VerdictLog,
        reading: Callable[[], AbstractContextManager[Connection]],
        clock: Callable[[], float],
    ):
        self._views, self._verdicts, self._reading, self._clock = views, verdicts, reading, clock

    def __call__(self, alert: Alert) -> dict[str, str]:
        """The facts; empty for an alert that is not about one known query."""
        query_id = alert.labels.get("query_id", "")
        view = self._views.view(query_id) if query_id else None
        if view is None:
            return {}
        try:
            return self._facts(view)
        except Exception:
            log.exception("facts about %s cannot be read; its notification is sent without them", query_id)
            return {}

    def _facts(self, view: QueryView) -> dict[str, str]:
        now = self._clock()
        with self._reading() as conn:
            newest = next(iter(rows.list_actions(conn, view.query_id, limit=1)), None)
        found = {
            "Verdict": self._verdicts.verdict_of(view, now).verdict.reason,
            "Probable cause": probable_cause(view),
            "Last action": last_action(newest, now),
        }
        return {name: text for name, text in found.items() if text}


def probable_cause(view: QueryView) -> str:
    """Why the newest run failed, and what to do; empty where it did not fail."""
    run = view.run
    if run is None or run.end is not RunEnd.FAILED or not run.failure_text:
        return ""
    failure = failure_of_run(run, view.change, view.overload)
    return " ".join(part for part in (f"{headline(failure)}.", failure.advice) if part)


def last_action(action: Action | None, now: float) -> str:
    """The newest action of the last day: what, by whom, when, with which outcome."""
    if action is None or now - action.requested_at > MAX_ACTION_AGE_SECONDS:
        return ""
    at = datetime.fromtimestamp(action.requested_at, UTC)
    outcome = f"{action.state.value}: {action.reason}" if action.reason else action.state.value
    return f"{action.action} by {action.actor} at {at:%Y-%m-%d %H:%M} UTC, {outcome}"
