"""Cached reads: however many people watch, each question reaches the server at most once per TTL.

The pages call it; it calls `ui.client`. A read never raises: when the server is away it hands out the last
good answer and says why there is no newer one. Errors are cached like answers, so that many viewers of a
server that is away do not each wait for a timeout.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui.client import Client, ClientError, NotFound, TokenRefused, server_url

TTL = 3.0  # seconds; below the refresh interval, so that every refresh of a lone viewer is fresh
QUICK_TTL = 0.8  # seconds, while somebody waits for an action
POINTS = 720  # per chart: about one for every second pixel


@dataclass(frozen=True)
class Reading:
    """An answer and its age. `body` is None when there never was one; `error` says why it is not newer."""

    body: dict[str, Any] | None
    at: float
    error: str | None = None
    kind: str = ""  # "away" | "token" | "missing", when there is an error

    @property
    def stale(self) -> bool:
        return self.error is not None and self.body is not None


class LastGood:
    """The newest good answer to each question, bounded; shared by all sessions."""

    def __init__(self, size: int = 256):
        self._size = size
        self._answers: OrderedDict[tuple[Any, ...], Reading] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, question: tuple[Any, ...], reading: Reading) -> Reading:
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
        return Reading(last.body, last.at, reading.error, reading.kind)


@st.cache_resource
def connection() -> Client:
    return Client(server_url())


@st.cache_resource
def _last_good() -> LastGood:
    return LastGood()


def fleet() -> Reading:
    return _read("fleet")


def query(query_id: str) -> Reading:
    return _read("query", query_id)


def actions() -> Reading:
    return _read("actions")


def progress(query_id: str, seconds: int) -> Reading:
    return _read("progress", query_id, seconds)


def action(action_id: str) -> Reading:
    """As fresh as it gets: somebody is waiting for this one."""
    return _last_good().remember(("action", action_id), _ask_quickly("action", action_id))


def role() -> str | None:
    """What our token may do; None when the server does not say."""
    body = _read("whoami").body
    return str(body["role"]) if body and body.get("role") else None


def act(query_id: str, body: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
    """Ask for an action; raises `ui.client.ClientError`. The reads forget what they knew."""
    answer = connection().act(query_id, body, idempotency_key)
    forget()
    return dict(answer["action"])


def forget() -> None:
    """Make the next read of every page ask the server."""
    _ask.clear()
    _ask_quickly.clear()


def _read(question: str, *args: Any) -> Reading:
    return _last_good().remember((question, *args), _ask(question, *args))


@st.cache_data(ttl=TTL, max_entries=256, show_spinner=False)
def _ask(question: str, *args: Any) -> Reading:
    return _answer(question, args, time.time())


@st.cache_data(ttl=QUICK_TTL, max_entries=64, show_spinner=False)
def _ask_quickly(question: str, *args: Any) -> Reading:
    return _answer(question, args, time.time())


def _answer(question: str, args: tuple[Any, ...], now: float) -> Reading:
    """One question to the server; every failure becomes a Reading."""
    if question == "progress":
        query_id, seconds = args
        args = (query_id, now - seconds, now, max(1.0, seconds / POINTS))
    try:
        return Reading(getattr(connection(), question)(*args), now)
    except TokenRefused as error:
        return Reading(None, now, str(error), "token")
    except NotFound as error:
        return Reading(None, now, str(error), "missing")
    except ClientError as error:
        return Reading(None, now, str(error), "away")
