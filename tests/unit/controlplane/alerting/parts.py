"""Parts of the alerting service for tests: rules from a text, series by hand, receivers that hang or break, a clock."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from alerts.errors import ReceiverError
from alerts.matching.labels import Matcher, matches
from alerts.notify import config as routing
from alerts.notify.config import Config
from alerts.notify.message import Message
from alerts.notify.reasons import NotificationState
from alerts.notify.receivers.base import Receiver
from alerts.promql.series import Series, SeriesSource
from alerts.rules import loader
from alerts.rules.model import RuleGroup
from controlplane.alerting.rulebook import Rulebook
from controlplane.errors import StoreUnavailable
from controlplane.records import NotificationLogEntry
from controlplane.store.alerting import AlertChange

NOW = 1_800_000_000.0
WAIT, INTERVAL, REPEAT = 10.0, 300.0, 3600.0
ROUTES = f"""
route: {{receiver: team, group_by: [app], group_wait: {WAIT:g}s, group_interval: {INTERVAL:g}s, repeat_interval: 1h}}
receivers: [{{name: team}}, {{name: other}}]
"""


class Clock:
    """Goes when it is reported to."""

    def __init__(self, now: float = NOW):
        self.now = now

    def __call__(self) -> float:
        return self.now


def groups(*texts: str) -> tuple[RuleGroup, ...]:
    """Groups `one`, `two`, … of the file `f`, each a list of rules as a rule file has them."""
    names = ("one", "two", "three")
    text = "groups:\n" + "".join(f"- name: {n}\n  rules:\n{t}" for n, t in zip(names, texts, strict=False))
    found, mistakes = loader.load(text, source="f")
    assert not mistakes
    return found


def rule(name: str = "Up", expr: str = "up == 0", for_: str = "0s") -> str:
    return f"  - {{alert: {name}, expr: '{expr}', for: {for_}, labels: {{severity: warning}}}}\n"


def config(text: str = ROUTES) -> Config:
    found, mistakes = routing.load(text)
    assert found is not None, mistakes
    return found


def book(
    *texts: str, routes: str = ROUTES, receivers: Mapping[str, tuple[Receiver, ...]] | None = None
) -> Rulebook:
    return Rulebook(groups(*texts), config(routes), receivers or {})


class Figures:
    """Series with the value of now; also the seam that the evaluation asks."""

    def __init__(self) -> None:
        self.values: dict[tuple[tuple[str, str], ...], float] = {}
        self.broken: set[str] = set()
        self.recorded: list[str] = []
        self.forgotten: list[str] = []
        self.now = NOW

    def set(self, name: str, value: float | None, **labels: str) -> None:
        key = tuple(sorted({"__name__": name, **labels}.items()))
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def rules_source(self, now: float, live: bool, together: frozenset[str] = frozenset()) -> SeriesSource:
        self.now = now
        return self

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        if {m.value for m in matchers if m.name == "__name__"} & self.broken:
            raise MemoryError("a mistake of ours")
        at = np.array([self.now])
        found = [(dict(key), value) for key, value in self.values.items()]
        return [Series(labels, at, np.array([v])) for labels, v in found if matches(matchers, labels)]

    def record(self, group_key: str, series: Sequence[Series]) -> None:
        self.recorded.append(group_key)

    def forget(self, group_key: str) -> None:
        self.forgotten.append(group_key)


@dataclass
class Memory:
    """A store that can be down: what was saved, in order."""

    down: bool = False
    asked: int = 0
    changes: list[AlertChange] = field(default_factory=list)
    evaluated: dict[str, float] = field(default_factory=dict)
    notes: list[NotificationLogEntry] = field(default_factory=list)
    reported: dict[tuple[str, str], NotificationState] = field(default_factory=dict)

    def save(self, changes: Sequence[AlertChange], evaluated: Mapping[str, float]) -> None:
        self._check()
        self.changes += changes
        self.evaluated |= evaluated

    def keep(self, note: NotificationLogEntry, reported: NotificationState | None) -> None:
        self._check()
        self.notes.append(note)
        if reported is not None:
            self.reported[note.group_key, note.receiver] = reported

    def _check(self) -> None:
        self.asked += 1
        if self.down:
            raise StoreUnavailable("the disk of the store is full")

    def became(self) -> list[tuple[str, str | None]]:
        """Name and new state of every change."""
        return [(change.transition.alert.rule, change.transition.after) for change in self.changes]


@dataclass
class Door:
    """A receiver that waits at a closed door: `came` when somebody is at it."""

    name: str = "door"
    sends_resolved: bool = True
    came: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)
    messages: list[Message] = field(default_factory=list)

    def send(self, message: Message) -> None:
        self.came.set()
        self.opened.wait(60)
        self.messages.append(message)


@dataclass
class Broken:
    """A receiver with a mistake in it."""

    name: str = "broken"
    sends_resolved: bool = True
    tried: int = 0

    def send(self, message: Message) -> None:
        self.tried += 1
        raise RuntimeError("no such thing")


def refusal(expected: str) -> ReceiverError:
    return ReceiverError(expected, retryable=True)


def fingerprints(message: Message) -> Iterable[str]:
    return [alert.labels.get("app", "") for alert in message.alerts]


class Scrapes(Figures):
    """What the whole service asks of the series."""

    step = 15.0

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[str, ...]] = []
        self.scraped: list[float] = []
        self.filled = 0

    def keep_for(self, groups: Sequence[RuleGroup]) -> None:
        self.kept.append(tuple(group.key for group in groups))

    def scrape(self, at: float) -> None:
        self.scraped.append(at)

    def fill(self) -> None:
        self.filled += 1

    def load(self) -> None:
        """There is nothing to take up."""
