"""Replay rule groups over stored series to find when their alerts would have fired.

Every rule starts without alerts, so a condition that already holds at the start begins there. Expressions are
evaluated for a whole time range at once where the result is the same. Used by the API; pure except for
`should_continue`, which ends a replay early.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from alerts.engine import evaluate_group
from alerts.errors import AlertsError
from alerts.matching.labels import Labels, Matcher, matches
from alerts.prefetched import PrefetchedSource
from alerts.promql.errors import LimitError
from alerts.promql.evaluator import LOOKBACK_SECONDS, evaluate, evaluate_range
from alerts.promql.series import METRIC_NAME, STALE, Sample, Series, SeriesSource, Vector
from alerts.promql.syntax.nodes import Anchor, Node, Selector, Subquery, children, selectors
from alerts.rules.model import RuleGroup, RuleKind
from alerts.state import Alerts, AlertState, TemplateContext, Transition

#: Per rule; a longer range is replayed with a coarser step.
MAX_EVALUATIONS = 20_000
MAX_EPISODES = 5_000
MAX_PROBLEMS = 100
#: Default number of slots that are evaluated at once.
CHUNK_SLOTS = 960
#: Precomputed elements per rule; a rule with more is evaluated slot by slot.
MAX_PRECOMPUTED = 200_000
MIN_PRECOMPUTED_SLOTS = 16
ALERT_SERIES = frozenset({"ALERTS", "ALERTS_FOR_STATE"})


@dataclass(frozen=True)
class Episode:
    """An alert from pending to resolved. Times are Unix seconds; `resolved_at` None: it still fires at the end.

    `value`: the expression's value when the alert fired.
    """

    name: str
    group: str
    labels: Labels
    pending_at: float
    fired_at: float
    value: float
    resolved_at: float | None = None


@dataclass(frozen=True)
class Problem:
    """An evaluation error of a rule, how often it occurred, and when first (Unix seconds)."""

    rule: str
    message: str
    first_at: float
    count: int = 1


@dataclass(frozen=True)
class Pace:
    """Seconds between two evaluations of a group: configured (`interval`) and replayed (`step`)."""

    group: str
    interval: float
    step: float

    @property
    def is_coarser(self) -> bool:
        """Whether the replay evaluated less often than configured."""
        return self.step > self.interval


@dataclass(frozen=True)
class RuleReplay:
    """Result of a replay. `until`: its end, earlier than requested where `should_continue` ended it.

    `evaluations` counts rule evaluations. `left_out`: number of episodes beyond MAX_EPISODES.
    """

    episodes: tuple[Episode, ...]
    problems: tuple[Problem, ...]
    paces: tuple[Pace, ...]
    evaluations: int
    until: float
    left_out: int = 0


def replay(
    groups: Sequence[RuleGroup],
    source: SeriesSource,
    start: float,
    end: float,
    step: float,
    context: TemplateContext | None = None,
    lookback: float = LOOKBACK_SECONDS,
    should_continue: Callable[[], bool] = lambda: True,
    narrow_by: Collection[str] = (),
    chunk: int = CHUNK_SLOTS,
) -> RuleReplay:
    """Replay groups from `start` to `end` (Unix seconds). `step`: the interval of groups without one.

    `narrow_by`: labels by which the source can restrict a query (see `alerts.prefetched`). `chunk`: slots
    evaluated at once; fewer slots need less memory.
    A rule that reads the recorded series or the alerts of these rules sees the results of this replay, never
    those stored in the source.
    """
    paces = [pace(group, end - start, step) for group in groups]
    group_replays = [
        _GroupReplay(group, p, context, lookback) for group, p in zip(groups, paces, strict=True)
    ]
    names = _recorded_names(groups)
    fetched = PrefetchedSource(source, narrow_by)
    recording = _RecordingSource(
        fetched,
        names,
        any(_reads(node, names) for group in groups for rule in group.rules for node in rule.expressions),
    )
    log = _ReplayLog()
    until = start
    for window in _windows(paces, start, end, chunk):
        if ends := [(times[0], times[-1]) for times in window if times]:
            fetched.advance(min(first for first, _ in ends), max(last for _, last in ends))
        for group_replay, times in zip(group_replays, window, strict=True):
            group_replay.precompute(fetched, times, names, should_continue)
        for at, number in sorted((at, n) for n, times in enumerate(window) for at in times):
            if not should_continue():
                return log.replay(paces, until)
            group_replays[number].play(at, recording, log)
            until = at
    return log.replay(paces, end)


def pace(group: RuleGroup, length: float, step: float) -> Pace:
    """The group's interval, or its smallest multiple with at most MAX_EVALUATIONS in `length` seconds."""
    interval = group.interval or step
    factor = max(1, math.ceil((length / interval + 1) / MAX_EVALUATIONS))
    return Pace(group.name, interval, interval * factor)


def _windows(paces: Sequence[Pace], start: float, end: float, chunk: int) -> Iterator[list[list[float]]]:
    """The slots of each group, one time range after the other. Slots are multiples of the step."""
    length = chunk * min((p.step for p in paces), default=1.0)
    for number in range(math.ceil((end - start) / length) if paces else 0):
        first = start + number * length
        yield [_slots(p.step, first, min(first + length, end), number == 0) for p in paces]


def _slots(step: float, after: float, until: float, with_first: bool) -> list[float]:
    """Multiples of the step after `after`, up to and including `until`."""
    first = math.ceil(after / step) if with_first else math.floor(after / step) + 1
    return [number * step for number in range(first, math.floor(until / step) + 1)]


def _recorded_names(groups: Sequence[RuleGroup]) -> frozenset[str]:
    named = {rule.name for group in groups for rule in group.rules if rule.kind is RuleKind.RECORD}
    return ALERT_SERIES | named


def _reads(node: Node, names: frozenset[str]) -> bool:
    """Whether an expression may read a series of one of these names."""
    return any(_selects(selector.matchers, name) for selector in selectors(node) for name in names)


def _selects(matchers: Sequence[Matcher], name: str) -> bool:
    return all(m.matches({METRIC_NAME: name}) for m in matchers if m.name == METRIC_NAME)


def _is_anchored(node: Node) -> bool:
    """Whether `@ start()` or `@ end()` makes the result depend on the evaluated range."""
    own = isinstance(node, Selector | Subquery) and isinstance(node.shift.at, Anchor)
    return own or any(_is_anchored(child) for child in children(node))


class _GroupReplay:
    """A group during the replay: its alert states and precomputed results."""

    def __init__(self, group: RuleGroup, pace: Pace, context: TemplateContext | None, lookback: float):
        self._group, self._pace, self._around, self._lookback = group, pace, context, lookback
        self._states: tuple[Alerts, ...] = ()
        self._known: dict[int, dict[int, list[Sample]]] = {}

    def precompute(
        self,
        source: SeriesSource,
        times: Sequence[float],
        names: frozenset[str],
        should_continue: Callable[[], bool],
    ) -> None:
        """Evaluate rules that read none of `names` at all times; failing ones are evaluated slot by slot."""
        self._known = {}
        for rule in self._group.rules if times else ():
            if not should_continue():
                return
            if _is_anchored(rule.node) or _reads(rule.node, names):
                continue
            with suppress(AlertsError):
                self._known[id(rule.node)] = self._answers(rule.node, source, times)

    def _answers(self, node: Node, source: SeriesSource, times: Sequence[float]) -> dict[int, list[Sample]]:
        """Samples by time. Raises LimitError where even few slots exceed a limit or MAX_PRECOMPUTED."""
        try:
            return self._evaluated(node, source, times)
        except LimitError:
            if len(times) < MIN_PRECOMPUTED_SLOTS:
                raise
        middle = len(times) // 2
        earlier = self._answers(node, source, times[:middle])
        return {**earlier, **self._answers(node, source, times[middle:])}

    def _evaluated(self, node: Node, source: SeriesSource, times: Sequence[float]) -> dict[int, list[Sample]]:
        first, last = (at - self._group.query_offset for at in (times[0], times[-1]))
        found = evaluate_range(node, source, first, last, self._pace.step, self._lookback)
        if (count := sum(len(series.times) for series in found)) > MAX_PRECOMPUTED:
            raise LimitError(f"{count} elements exceed the limit of {MAX_PRECOMPUTED}", 1, 1)
        answers: dict[int, list[Sample]] = {}
        for series in found:
            for at, value in zip(series.times.tolist(), series.values.tolist(), strict=True):
                answers.setdefault(_milliseconds(at), []).append(Sample(series.labels, value))
        return answers

    def _answer(self, node: Any, source: SeriesSource, at: float, lookback: float) -> Any:
        known = self._known.get(id(node))
        if known is None:
            return evaluate(node, source, at, lookback)
        return Vector(known.get(_milliseconds(at), ()))

    def play(self, at: float, recording: _RecordingSource, log: _ReplayLog) -> None:
        result = evaluate_group(
            self._group, recording, self._states, at, self._around, self._lookback, self._answer
        )
        self._states = result.states
        for number, rule in enumerate(result.rules):
            place = (self._group.key, number)
            recording.add(place, rule.recorded, at)
            log.add_transitions(place, self._group.name, rule.transitions)
            if rule.error:
                log.add_problem(rule.rule.name, rule.error, at)
        log.evaluations += len(result.rules)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


@dataclass
class _Recorded:
    """A recorded series; a value of None marks its end."""

    labels: Labels
    times: list[float] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)

    def between(self, start: float, end: float) -> Series | None:
        first, last = bisect_right(self.times, start), bisect_right(self.times, end)
        if first == last:
            return None
        values = np.array([0.0 if v is None else v for v in self.values[first:last]])
        values[[v is None for v in self.values[first:last]]] = STALE
        return Series(self.labels, np.array(self.times[first:last]), values)


Key = frozenset[tuple[str, str]]


class _RecordingSource:
    """The source, with the replay's recorded series in place of the stored ones of these names."""

    def __init__(self, source: SeriesSource, names: frozenset[str], is_read: bool):
        self._source, self._names, self._is_read = source, names, is_read
        self._recorded: dict[Key, _Recorded] = {}
        self._last: dict[tuple[str, int], set[Key]] = {}

    def add(self, rule: tuple[str, int], recorded: Sequence[Series], at: float) -> None:
        """Add a rule's recorded series at `at`; series missing since its previous evaluation end here."""
        if not self._is_read:
            return
        now = {frozenset(series.labels.items()): series for series in recorded}
        for key, series in now.items():
            self._put(key, series.labels, at, float(series.values[-1]))
        for key in self._last.get(rule, set()) - now.keys():
            self._put(key, self._recorded[key].labels, at, None)
        self._last[rule] = set(now)

    def _put(self, key: Key, labels: Labels, at: float, value: float | None) -> None:
        series = self._recorded.setdefault(key, _Recorded(labels))
        if not series.times or series.times[-1] < at:
            series.times.append(at)
            series.values.append(value)
        elif value is not None:  # another rule records the same series
            series.values[-1] = value

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        ours = (r.between(start, end) for r in self._recorded.values() if matches(matchers, r.labels))
        return [*self._stored(matchers, start, end), *(series for series in ours if series is not None)]

    def _stored(self, matchers: Sequence[Matcher], start: float, end: float) -> list[Series]:
        if any(m.name == METRIC_NAME and m.operator == "=" and m.value in self._names for m in matchers):
            return []
        found = self._source.select(matchers, start, end)
        return [series for series in found if series.labels.get(METRIC_NAME) not in self._names]


@dataclass
class _ReplayLog:
    """Episodes and problems so far."""

    evaluations: int = 0
    left_out: int = 0
    _episodes: list[Episode] = field(default_factory=list)
    _firing: dict[tuple[tuple[str, int], str], int] = field(default_factory=dict)
    _problems: dict[tuple[str, str], Problem] = field(default_factory=dict)

    def add_transitions(self, place: tuple[str, int], group: str, transitions: Sequence[Transition]) -> None:
        for change in transitions:
            key = (place, change.alert.fingerprint)
            if change.after is AlertState.FIRING:
                self._begin(key, group, change)
            elif change.after is AlertState.RESOLVED and (number := self._firing.pop(key, None)) is not None:
                self._episodes[number] = replace(self._episodes[number], resolved_at=change.at)

    def _begin(self, key: tuple[tuple[str, int], str], group: str, change: Transition) -> None:
        if len(self._episodes) >= MAX_EPISODES:
            self.left_out += 1
            return
        alert = change.alert
        self._firing[key] = len(self._episodes)
        self._episodes.append(
            Episode(alert.rule, group, alert.labels, alert.active_at, change.at, alert.value)
        )

    def add_problem(self, rule: str, message: str, at: float) -> None:
        known = self._problems.get((rule, message))
        if known is None and len(self._problems) >= MAX_PROBLEMS:
            return
        self._problems[rule, message] = (
            replace(known, count=known.count + 1) if known else Problem(rule, message, at)
        )

    def replay(self, paces: Sequence[Pace], until: float) -> RuleReplay:
        episodes = tuple(sorted(self._episodes, key=lambda episode: (episode.fired_at, episode.name)))
        problems = tuple(self._problems.values())
        return RuleReplay(episodes, problems, tuple(paces), self.evaluations, until, self.left_out)
