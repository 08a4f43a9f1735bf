"""Cached reads: however many people watch, each question reaches the server at most once per TTL.

The pages call it; it calls `ui.kit.client`. A read never raises: when the server is away it hands out the last
good answer and says why there is no newer one. Errors are cached like answers, so that many viewers of a
server that is away do not each wait for a timeout.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import streamlit as st

from ui.kit import fleet_table as fleet_tables
from ui.kit import series_queries
from ui.kit.client import ClientError, ServerClient, ServerNotFound, TokenRefused, server_url

TTL_SECONDS = 3.0  # seconds; below the refresh interval, so that every refresh of a lone viewer is fresh
LONG_TTL_SECONDS = (
    30.0  # seconds, for long lists of which only the number is shown, and for long stretches of time
)
LONG_RANGE_SECONDS = (
    2 * 86_400.0
)  # seconds: in a stretch of so many nothing moves visibly from one refresh to the next
SHORT_TTL_SECONDS = 0.8  # seconds, while somebody waits for an action
MAX_POINTS = 720  # per chart: about one for every second pixel


@dataclass(frozen=True)
class CachedRead:
    """An answer and its age. `body` is None when there never was one; `error` says why it is not newer."""

    body: dict[str, Any] | None
    at: float
    error: str | None = None
    kind: str = ""  # "away" | "token" | "missing", when there is an error

    @property
    def stale(self) -> bool:
        return self.error is not None and self.body is not None


class LastGoodAnswers:
    """The newest good answer to each question, bounded; shared by all sessions."""

    def __init__(self, size: int = 256):
        self._size = size
        self._answers: OrderedDict[tuple[Any, ...], CachedRead] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, question: tuple[Any, ...], reading: CachedRead) -> CachedRead:
        """A good reading, which is then kept; else the last good one with the new error."""
        with self._lock:
            if reading.error is None:
                self._answers[question] = reading
                self._answers.move_to_end(question)
                while len(self._answers) > self._size:
                    self._answers.popitem(last=False)
                return reading
            last = self._answers.get(question)
        if last is None or reading.kind != "away":  # what is gone or forbidden now must not be shown on
            return reading
        return CachedRead(last.body, last.at, reading.error, reading.kind)


@st.cache_resource
def connection() -> ServerClient:
    return ServerClient(server_url())


@st.cache_resource
def _last_good() -> LastGoodAnswers:
    return LastGoodAnswers()


def fleet() -> CachedRead:
    return _read("fleet")


def fleet_table(reading: CachedRead) -> pa.Table:
    """The table of a fleet's reading, made once for all viewers."""
    return _fleet_table(reading.at, (reading.body or {}).get("queries", []))


@st.cache_resource(max_entries=2, show_spinner=False)
def _fleet_table(at: float, _queries: Sequence[Mapping[str, Any]]) -> pa.Table:
    return fleet_tables.fleet(_queries, at)


def query(query_id: str) -> CachedRead:
    return _read("query", query_id)


def actions() -> CachedRead:
    return _read("actions")


def progress(query_id: str, seconds: float, until: float | None = None) -> CachedRead:
    """Reports of the last `seconds`, or of those before the moment `until`."""
    return _read_stretch("progress", seconds, query_id, seconds, until)


def past_events(query_id: str, seconds: float, until: float | None = None) -> CachedRead:
    """What the lake tells of that time: it hardly changes."""
    return _read_patiently("past", query_id, seconds, until)


def series(expression: str, seconds: float, step: float, until: float | None = None) -> CachedRead:
    """A range query, on the grid of `step` seconds."""
    return _read_stretch("series", seconds, expression, seconds, step, until)


def instant(expression: str) -> CachedRead:
    return _read("instant", expression)


def query_alerts(query_id: str, seconds: float, until: float | None = None) -> CachedRead:
    """What fired for a query in that time."""
    return _read("query_alerts", query_id, seconds, until)


def action(action_id: str) -> CachedRead:
    """As fresh as it gets: somebody is waiting for this one."""
    return _last_good().remember(("action", action_id), _ask_quickly("action", action_id))


def alerts() -> CachedRead:
    return _read("alerts")


def alert(fingerprint: str) -> CachedRead:
    return _read("alert", fingerprint)


def alert_history(seconds: int, patient: bool = False) -> CachedRead:
    """The episodes of the last `seconds`; `patient` where only their number is shown."""
    return _read_patiently("alert_history", seconds) if patient else _read("alert_history", seconds)


def silences() -> CachedRead:
    return _read("silences")


def covered(matchers: tuple[str, ...]) -> CachedRead:
    """What fires now and passes these matchers; `error` says what is wrong with one."""
    return _read("covered", matchers)


def checkpoints() -> CachedRead:
    return _read("checkpoints")


def checkpoint(query_id: str, quick: bool = False) -> CachedRead:
    """One checkpoint; `quick` while somebody waits for a fresh look at it."""
    if quick:
        return _last_good().remember(("checkpoint", query_id), _ask_quickly("checkpoint", query_id))
    return _read("checkpoint", query_id)


def rules() -> CachedRead:
    return _read("rules")


def runbook(name: str) -> CachedRead:
    return _read("runbook", name)


def notifications(patient: bool = False) -> CachedRead:
    """The newest notifications; `patient` where only their number is shown."""
    return _read_patiently("notifications") if patient else _read("notifications")


def role() -> str | None:
    """What our token may do; None when the server does not say."""
    body = _read("whoami").body
    return str(body["role"]) if body and body.get("role") else None


def act(query_id: str, body: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
    """Ask for an action; raises `ui.kit.client.ClientError`. The reads forget what they knew."""
    answer = connection().act(query_id, body, idempotency_key)
    clear()
    return dict(answer["action"])


def request_inventory(query_id: str) -> str:
    """Ask for a fresh look at a checkpoint; raises `ui.kit.client.ClientError`. Who looks: "agent" or "server"."""
    answer = connection().look(query_id)
    clear()
    return str(answer.get("by") or "")


def acknowledge(fingerprint: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Say that somebody works on a firing alert; raises `ui.kit.client.ClientError`. The reads forget."""
    answer = connection().acknowledge(fingerprint, body)
    clear()
    return dict(answer["alert"])


def silence(body: Mapping[str, Any]) -> dict[str, Any]:
    """Add a silence; raises `ui.kit.client.ClientError`. The reads forget what they knew."""
    answer = connection().silence(body)
    clear()
    return dict(answer["silence"])


def expire(silence_id: str) -> dict[str, Any]:
    """End a silence now; raises `ui.kit.client.ClientError`. The reads forget what they knew."""
    answer = connection().expire(silence_id)
    clear()
    return dict(answer["silence"])


def clear() -> None:
    """Make the next read of every page ask the server."""
    _ask.clear()
    _ask_quickly.clear()
    _ask_patiently.clear()


def _read(question: str, *args: Any) -> CachedRead:
    return _last_good().remember((question, *args), _ask(question, *args))


# As resources: all viewers read one answer, which nobody changes; as data each would be handed a copy.
@st.cache_resource(ttl=TTL_SECONDS, max_entries=256, show_spinner=False)
def _ask(question: str, *args: Any) -> CachedRead:
    return _answer(question, args, time.time())


@st.cache_resource(ttl=SHORT_TTL_SECONDS, max_entries=64, show_spinner=False)
def _ask_quickly(question: str, *args: Any) -> CachedRead:
    return _answer(question, args, time.time())


def _read_stretch(question: str, stretch: float, *args: Any) -> CachedRead:
    return _read_patiently(question, *args) if stretch >= LONG_RANGE_SECONDS else _read(question, *args)


def _read_patiently(question: str, *args: Any) -> CachedRead:
    return _last_good().remember((question, *args), _ask_patiently(question, *args))


@st.cache_resource(ttl=LONG_TTL_SECONDS, max_entries=64, show_spinner=False)
def _ask_patiently(question: str, *args: Any) -> CachedRead:
    return _answer(question, args, time.time())


def _reports(query_id: str, seconds: float, until: float | None, now: float) -> tuple[Any, ...]:
    end = now if until is None else until
    return query_id, end - seconds, end, series_queries.coarse_step(seconds) or max(1.0, seconds / MAX_POINTS)


def _fired(query_id: str, seconds: float, until: float | None, now: float) -> tuple[Any, ...]:
    end = now if until is None else until
    return query_id, end - seconds, end


def _on_grid(
    expression: str, seconds: float, step: float, until: float | None, now: float
) -> tuple[Any, ...]:
    """Moments that stay the same from one refresh to the next, so that no line trembles."""
    grid = min(step, series_queries.HOUR)  # of long stretches the last point must not be a day old
    end = now // grid * grid if until is None else -(-until // grid) * grid
    return expression, end - -(-seconds // step) * step, end, step


#: Questions about a period, which is put in moments only when they are asked.
PERIOD_ARGUMENTS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "progress": _reports,
    "query_alerts": _fired,
    "past": _fired,
    "alert_history": lambda seconds, now: (now - seconds, now),
    "series": _on_grid,
}


def _answer(question: str, args: tuple[Any, ...], now: float) -> CachedRead:
    """One question to the server; every failure becomes a Reading."""
    if question in PERIOD_ARGUMENTS:
        args = PERIOD_ARGUMENTS[question](*args, now)
    try:
        return CachedRead(getattr(connection(), question)(*args), now)
    except TokenRefused as error:
        return CachedRead(None, now, str(error), "token")
    except ServerNotFound as error:
        return CachedRead(None, now, str(error), "missing")
    except ClientError as error:
        return CachedRead(None, now, str(error), "away")
