"""Quotas of ingest: how many queries and agents an app and the fleet may have, and how fast an app may send.

They bound what one token can take of the server. A known query or agent is never refused; only new ones are counted,
so an event of a fleet within its quotas costs two lookups. The rate is limited by refusing whole requests (429): the
agent keeps the events and sends them later.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from alerts.durations import DAY_SECONDS
from controlplane.errors import TooManyEvents
from controlplane.events.lifecycle import unstarted_id
from controlplane.events.parsing import ParsedEvent, query_name
from controlplane.events.window import Window
from controlplane.model import Agent
from controlplane.records import AgentRow, QueryRow, RunRow
from controlplane.settings import Settings

#: New queries and agents are admitted by a count that is at most this old, plus those admitted since.
COUNT_SECONDS = 5.0
PENDING_SECONDS = 60.0  # an admitted name is in the window by then, or was not stored
#: An app may send this many seconds of its rate at once.
BURST_SECONDS = 10.0
MAX_RETRY_SECONDS = 60.0
MAX_LEVELS = 10_000  # apps whose rate is remembered
#: Apps that the metric of refusals names; the others are counted together.
MAX_NAMED_APPS = 100
OTHER_APPS = "(others)"


@dataclass(frozen=True)
class _Kind:
    """Queries or agents: the settings with their quotas."""

    noun: str
    fleet: str
    app: str


QUERIES = _Kind("queries", "max_queries", "max_queries_per_app")
AGENTS = _Kind("agents", "max_agents", "max_agents_per_app")


class Quotas:
    """Admits new queries and agents, and the rate of each app. Thread-safe."""

    def __init__(
        self,
        window: Window,
        limits: Settings,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self._window, self._limits, self._clock, self._monotonic = window, limits, clock, monotonic
        self._lock = threading.Lock()
        self._counts: dict[_Kind, Counter[str]] = {}
        self._admitted: dict[_Kind, dict[str, tuple[str, float]]] = {QUERIES: {}, AGENTS: {}}
        self._counted_at = float("-inf")
        self._levels: dict[str, tuple[float, float]] = {}  # app -> (events it may still send, as of)
        self._refused: Counter[tuple[str, str]] = Counter()

    @property
    def refused(self) -> Mapping[tuple[str, str], int]:
        """What was refused since the start, by (quota, app): lines, entries of status events, and requests."""
        with self._lock:
            return dict(self._refused)

    # -- new queries and agents ------------------------------------------------------------------

    def admitted(self, parsed: ParsedEvent) -> ParsedEvent:
        """The event without entries of queries over a quota; ValueError if the event itself is over one."""
        event, app = parsed.event, parsed.event.app.name
        if self._window.agent(event.agent) is None:
            self._admit(AGENTS, app, event.agent)
        query_id = parsed.query_id
        if query_id is None and event.type == "start_failed" and (name := query_name(event.data)):
            query_id = (self._window.lineage(app, name) or [unstarted_id(app, name)])[-1]
        if query_id is not None and not self._window.knows(query_id):
            self._admit(QUERIES, app, query_id)
        if all(self._window.knows(entry.query_id) for entry in parsed.entries):
            return parsed
        return replace(parsed, entries=tuple(e for e in parsed.entries if self._may_list(app, e.query_id)))

    def _may_list(self, app: str, query_id: str) -> bool:
        try:
            if not self._window.knows(query_id):
                self._admit(QUERIES, app, query_id)
        except ValueError:
            return False
        return True

    def _admit(self, kind: _Kind, app: str, name: str) -> None:
        with self._lock:
            self._count()
            if name in self._admitted[kind]:
                return
            counts = self._counts[kind]
            for setting, used in ((kind.app, counts[app]), (kind.fleet, counts.total())):
                limit = getattr(self._limits, setting)
                if used >= limit:
                    self._note(setting, app)
                    raise ValueError(_message(kind, app if setting == kind.app else None, limit, setting))
            counts[app] += 1
            self._admitted[kind][name] = app, self._monotonic()

    def _count(self) -> None:
        """Count what the window holds, and what was admitted lately and is not in it yet."""
        elapsed = self._monotonic()
        if elapsed - self._counted_at < COUNT_SECONDS:
            return
        self._counted_at = elapsed
        now, rows, agents = self._clock(), self._window.rows(), self._window.agents()
        known = {QUERIES: {query.query_id for query, _, _ in rows}, AGENTS: {a.agent for a in agents}}
        self._counts = {
            QUERIES: Counter(row[0].app for row in rows if _is_counted(*row, now)),
            AGENTS: Counter(agent.app for agent in agents if _is_recent(agent, now)),
        }
        for kind, admitted in self._admitted.items():
            lately = {
                name: (app, at)
                for name, (app, at) in admitted.items()
                if name not in known[kind] and elapsed - at < PENDING_SECONDS
            }
            self._admitted[kind] = lately
            self._counts[kind].update(app for app, _ in lately.values())

    def _note(self, quota: str, app: str) -> None:
        known = sum(1 for name, _ in self._refused if name == quota) < MAX_NAMED_APPS
        self._refused[quota, app if known or (quota, app) in self._refused else OTHER_APPS] += 1

    # -- rate ------------------------------------------------------------------------------------

    def check_rate(self, app: str) -> None:
        """TooManyEvents while the app has sent more than its rate allows."""
        rate = self._limits.max_events_per_second_per_app
        with self._lock:
            level = self._level(app)
            if level <= 0:
                self._note("max_events_per_second_per_app", app)
                error = TooManyEvents(
                    f"the app {app} sends more than {rate:g} events a second "
                    "(CONTROLPLANE_MAX_EVENTS_PER_SECOND_PER_APP); send them later"
                )
                error.retry_after = min(MAX_RETRY_SECONDS, 1.0 - level / rate)
                raise error

    def charge(self, sent: Iterable[tuple[str, int]]) -> None:
        """Count events against the rate of their app: (app, events)."""
        with self._lock:
            now = self._monotonic()
            for app, events in sent:
                self._levels[app] = (self._level(app) - events, now)
            if len(self._levels) > MAX_LEVELS:
                self._levels = {
                    app: held for app, held in self._levels.items() if now - held[1] < BURST_SECONDS
                }

    def _level(self, app: str) -> float:
        rate = self._limits.max_events_per_second_per_app
        level, at = self._levels.get(app, (rate * BURST_SECONDS, 0.0))
        return min(rate * BURST_SECONDS, level + (self._monotonic() - at) * rate)


def _is_counted(query: QueryRow, run: RunRow | None, agent: AgentRow | None, now: float) -> bool:
    """Whether a query counts: new within a day, or not ended and its driver seen within a day.

    So a driver that starts its queries without a checkpoint, each time with new ids, is not refused in the end.
    """
    if query.first_seen_at > now - DAY_SECONDS:
        return True
    seen_at = agent.agent.last_seen_at if agent else query.first_seen_at
    ended = query.retired_at is not None or run is None or run.run.ended_at is not None
    return not ended and seen_at > now - DAY_SECONDS


def _is_recent(agent: Agent, now: float) -> bool:
    return agent.last_seen_at > now - DAY_SECONDS / 24


def _message(kind: _Kind, app: str | None, limit: int, setting: str) -> str:
    owner = f"the app {app}" if app else "the fleet"
    return f"{owner} has its limit of {limit} {kind.noun} (CONTROLPLANE_{setting.upper()}); no new one is accepted"
