"""Cached reads of the server: however many people watch, each request is sent at most once per TTL.

The pages call it; it calls `ui.kit.client`. A read never raises: while the server is unreachable it returns
the last good answer and the error. Errors are cached like answers, so that many viewers do not each wait for
a timeout.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from ui.kit import series_queries, sign_in, units
from ui.kit.answers import (
    CachedRead,
    ClientError,
    LastGoodAnswers,
    ServerNotFound,
    ServerRefused,
    TokenRefused,
)
from ui.kit.client import ServerClient
from ui.kit.fleet_page import EVERYTHING, FleetPage
from ui.kit.several_servers import open_client

TTL_SECONDS = 3.0  # below the refresh interval, so that every refresh of a single viewer is fresh
LONG_TTL_SECONDS = 30.0  # for lists of which only the length is shown, and for long time ranges
SHORT_TTL_SECONDS = 0.8  # while a viewer waits for an action or a checkpoint check
LONG_RANGE_SECONDS = 2 * units.DAY_SECONDS  # such a range does not visibly change between two refreshes
ERROR_KINDS = ((TokenRefused, "token"), (ServerNotFound, "missing"), (ServerRefused, "refused"))
MAX_POINTS = 720  # per chart: about one per two pixels


@st.cache_resource
def connection() -> ServerClient:
    """The client that all sessions share."""
    return open_client(person_headers=sign_in.request_headers)


@st.cache_resource
def _last_good() -> LastGoodAnswers:
    return LastGoodAnswers()


def fleet(page: FleetPage = EVERYTHING) -> CachedRead:
    """A page of the queries."""
    return _read("fleet", page)


def fleet_choices() -> CachedRead:
    """Applications, labels and servers to filter the fleet by."""
    return _read_long("fleet_choices")


def query(query_id: str) -> CachedRead:
    """One query."""
    return _read("query", query_id)


def actions() -> CachedRead:
    """The newest actions."""
    return _read("actions")


def apps() -> CachedRead:
    """The declared applications."""
    return _read("apps")


def agents() -> CachedRead:
    """All agents with the state of their drivers."""
    return _read("agents")


def app_logs(name: str) -> CachedRead:
    """The end of the output of an application's driver."""
    return _read("app_logs", name)


def ledger() -> CachedRead:
    """Decisions of the policies in the last week."""
    return _read("ledger")


def incidents() -> CachedRead:
    """The open incidents and those of the last week."""
    return _read("incidents")


def incident(incident_id: str) -> CachedRead:
    """One incident with everything stored about it."""
    return _read("incident", incident_id)


def progress(query_id: str, seconds: float, until: float | None = None) -> CachedRead:
    """Progress reports of the last `seconds`, or of the `seconds` before `until`."""
    return _read_range("progress", seconds, query_id, seconds, until)


def batch(query_id: str, run_id: str, batch_id: int) -> CachedRead:
    """The report of one batch, which does not change."""
    return _read_long("batch", query_id, run_id, batch_id)


def capacity(query_id: str) -> CachedRead:
    """Load, headroom and runways of a query, which change slowly."""
    return _read_long("about_query", query_id, "capacity")


def what_changed(query_id: str, **params: str) -> CachedRead:
    """What changed before a query's trouble began, or `before` a time, in the `searched_seconds`."""
    return _read_long("about_query", query_id, "what-changed", *params.items())


def past_events(query_id: str, seconds: float, until: float | None = None) -> CachedRead:
    """Runs, alerts and actions from the lake in that range, which hardly change."""
    return _read_long("past", query_id, seconds, until)


def series(expression: str, seconds: float, step: float, until: float | None = None) -> CachedRead:
    """PromQL range query on the grid of `step` seconds."""
    return _read_range("series", seconds, expression, seconds, step, until)


def instant(expression: str) -> CachedRead:
    """PromQL instant query."""
    return _read("instant", expression)


def query_alerts(query_id: str, seconds: float, until: float | None = None) -> CachedRead:
    """Alerts of a query that fired in that range."""
    return _read("query_alerts", query_id, seconds, until)


def action(action_id: str) -> CachedRead:
    """One action, with the short TTL: a viewer waits for its outcome."""
    return _ask(_fetch_quick, "action", action_id)


def alerts() -> CachedRead:
    """Current alerts."""
    return _read("alerts")


def alert(fingerprint: str) -> CachedRead:
    """One alert."""
    return _read("alert", fingerprint)


def alert_history(seconds: int, count_only: bool = False) -> CachedRead:
    """Alerts that fired in the last `seconds`; `count_only` if only their number is shown."""
    return _read_long("alert_history", seconds) if count_only else _read("alert_history", seconds)


def alert_statistics(seconds: int) -> CachedRead:
    """Firings of the last `seconds` by rule."""
    return _read_long("alert_statistics", seconds)


def silences() -> CachedRead:
    """All silences."""
    return _read("silences")


def covered(matchers: tuple[str, ...]) -> CachedRead:
    """Firing alerts that match the matchers; `error` is the mistake in a matcher."""
    return _read("covered", matchers)


def checkpoints() -> CachedRead:
    """The checkpoints of all queries."""
    return _read("checkpoints")


def checkpoint(query_id: str, quick: bool = False) -> CachedRead:
    """One checkpoint; `quick` while a viewer waits for a new inventory of it."""
    if quick:
        return _ask(_fetch_quick, "checkpoint", query_id)
    return _read("checkpoint", query_id)


def rules() -> CachedRead:
    """Rule groups."""
    return _read("rules")


def runbook(name: str) -> CachedRead:
    """A shipped runbook."""
    return _read("runbook", name)


def notifications(count_only: bool = False) -> CachedRead:
    """The newest notifications; `count_only` if only their number is shown."""
    return _read_long("notifications") if count_only else _read("notifications")


def receivers() -> CachedRead:
    """The receivers of notifications, and the problem where they do not deliver."""
    return _read("receivers")


def servers() -> CachedRead:
    """Role and figures of each server."""
    return _read("servers")


def whoami() -> CachedRead:
    """Name and role of this page's token."""
    return _read("whoami")


def role() -> str | None:
    """The role that this page's viewer has: at most that of the page's token; None if unknown."""
    return sign_in.effective_role(whoami().body or {})


def act(query_id: str, body: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
    """Request an action and clear the cache; raises `ui.kit.answers.ClientError`."""
    answer = connection().act(query_id, body, idempotency_key)
    clear()
    return dict(answer["action"])


def set_desired(query_id: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Set the desired state and clear the cache; the action requested for it. Raises `ui.kit.answers.ClientError`."""
    answer = connection().set_desired(query_id, body)
    clear()
    return answer["action"]


def tokens() -> CachedRead:
    """All tokens without their secrets."""
    return _read("tokens")


def policies() -> CachedRead:
    """The policies in force."""
    return _read("policies")


def saved_views() -> CachedRead:
    """Saved views of the Fleet page."""
    return _read("saved_views")


def save_view(name: str, parameters: str) -> None:
    """Save a view of the Fleet page and clear the cache; raises `ui.kit.answers.ClientError`."""
    connection().save_view(name, parameters)
    clear()


def delete_view(name: str) -> None:
    """Delete a saved view and clear the cache; raises `ui.kit.answers.ClientError`."""
    connection().delete_view(name)
    clear()


def bulk_action(bulk_id: str) -> CachedRead:
    """An action on many queries, with the short TTL: a viewer waits for its outcome."""
    return _ask(_fetch_quick, "bulk_action", bulk_id)


def post_bulk_action(place: str, body: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
    """Plan, request or cancel an action on many queries and clear the cache; raises `ui.kit.answers.ClientError`."""
    answer = connection().post_bulk_action(place, body, idempotency_key)
    clear()
    return answer


def act_on_app(name: str, body: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
    """Request an action on an application and clear the cache; raises `ui.kit.answers.ClientError`."""
    answer = connection().act_on_app(name, body, idempotency_key)
    clear()
    return dict(answer["action"])


def request_inventory(query_id: str) -> str:
    """Request a checkpoint inventory and clear the cache; raises `ui.kit.answers.ClientError`.

    Returns the collector: "agent" or "server".
    """
    answer = connection().request_inventory(query_id)
    clear()
    return str(answer.get("by") or "")


def acknowledge(fingerprint: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Acknowledge a firing alert and clear the cache; raises `ui.kit.answers.ClientError`."""
    answer = connection().acknowledge(fingerprint, body)
    clear()
    return dict(answer["alert"])


def silence(body: Mapping[str, Any]) -> dict[str, Any]:
    """Create a silence and clear the cache; raises `ui.kit.answers.ClientError`."""
    answer = connection().silence(body)
    clear()
    return dict(answer["silence"])


def expire(silence_id: str) -> dict[str, Any]:
    """End a silence and clear the cache; raises `ui.kit.answers.ClientError`."""
    answer = connection().expire(silence_id)
    clear()
    return dict(answer["silence"])


def clear() -> None:
    """Make the next read of every page ask the server."""
    _fetch.clear()
    _fetch_quick.clear()
    _fetch_long.clear()


def _read(request: str, *args: Any) -> CachedRead:
    return _ask(_fetch, request, *args)


def _ask(fetch: Callable[..., CachedRead], request: str, *args: Any) -> CachedRead:
    """The answer, for somebody who may see it: a page's refresh outlives the log-in."""
    if not sign_in.is_admitted():
        return CachedRead(None, time.time(), sign_in.ENDED, "log-in")
    return _last_good().remember((request, *args), fetch(request, *args))


# cache_resource, not cache_data: all viewers share one answer that is never modified, instead of a copy each.
@st.cache_resource(ttl=TTL_SECONDS, max_entries=256, show_spinner=False)
def _fetch(request: str, *args: Any) -> CachedRead:
    return _answer(request, args, time.time())


@st.cache_resource(ttl=SHORT_TTL_SECONDS, max_entries=64, show_spinner=False)
def _fetch_quick(request: str, *args: Any) -> CachedRead:
    return _answer(request, args, time.time())


def _read_range(request: str, length: float, *args: Any) -> CachedRead:
    return _read_long(request, *args) if length >= LONG_RANGE_SECONDS else _read(request, *args)


def _read_long(request: str, *args: Any) -> CachedRead:
    return _ask(_fetch_long, request, *args)


@st.cache_resource(ttl=LONG_TTL_SECONDS, max_entries=64, show_spinner=False)
def _fetch_long(request: str, *args: Any) -> CachedRead:
    return _answer(request, args, time.time())


def _progress_arguments(query_id: str, seconds: float, until: float | None, now: float) -> tuple[Any, ...]:
    end = now if until is None else until
    return query_id, end - seconds, end, series_queries.coarse_step(seconds) or max(1.0, seconds / MAX_POINTS)


def _range_arguments(query_id: str, seconds: float, until: float | None, now: float) -> tuple[Any, ...]:
    end = now if until is None else until
    return query_id, end - seconds, end


def _series_arguments(
    expression: str, seconds: float, step: float, until: float | None, now: float
) -> tuple[Any, ...]:
    """Times that stay the same from one refresh to the next, so that the lines do not jitter."""
    grid = min(step, units.HOUR_SECONDS)  # the last point of a long range must not be a day old
    end = now // grid * grid if until is None else -(-until // grid) * grid
    return expression, end - -(-seconds // step) * step, end, step


#: Requests about a period, whose bounds are computed when they are sent.
PERIOD_ARGUMENTS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "progress": _progress_arguments,
    "query_alerts": _range_arguments,
    "past": _range_arguments,
    "alert_history": lambda seconds, now: (now - seconds, now),
    "alert_statistics": lambda seconds, now: (now - seconds, now),
    "series": _series_arguments,
}


def _answer(request: str, args: tuple[Any, ...], now: float) -> CachedRead:
    """Send one request; every failure becomes a `CachedRead` with an error."""
    if request in PERIOD_ARGUMENTS:
        args = PERIOD_ARGUMENTS[request](*args, now)
    try:
        return CachedRead(getattr(connection(), request)(*args), now)
    except ClientError as error:
        kind = next((name for refusal, name in ERROR_KINDS if isinstance(error, refusal)), "unreachable")
        return CachedRead(None, now, str(error), kind)
