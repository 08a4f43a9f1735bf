"""Runs the rules: each group when it is due, some at once; keeps the states, stores what changed, hands it on.

A state is that of a rule in its group by name, so that a file may change while alerts live. What changed is
stored before anybody is told; where the store cannot take it, people are told all the same and it is
stored later. Called by `controlplane.alerting.rule_scheduler`, one evaluation at a time; any thread may read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from alerts import engine, state
from alerts.engine import GroupResult, RuleResult
from alerts.promql.series import Series, SeriesSource
from alerts.rules.model import RuleGroup, RuleKind
from alerts.state import Alert, Alerts, AlertState, TemplateContext, Transition
from controlplane.alerting import immediate_rules
from controlplane.alerting.rulebook import Rulebook, rule_keys
from controlplane.alerting.views import GroupView, RuleView
from controlplane.errors import StoreUnavailable
from controlplane.store.alerting import AlertChange, StoredAlert

log = logging.getLogger(__name__)
#: Waiting is not worth a line in the log; firing and its end are.
LOGGED_STATES = (AlertState.FIRING, AlertState.RESOLVED)
MAX_LOG_LINES = 50
#: Changes that are stored at once, and that wait for a store that is away.
SAVE_BATCH_SIZE, MAX_UNSAVED = 1_000, 20_000


class Sources(Protocol):
    """Where rules read, and where what they record goes."""

    def rules_source(self, now: float, live: bool) -> SeriesSource: ...
    def record(self, group_key: str, series: Sequence[Series]) -> None: ...
    def forget(self, group_key: str) -> None: ...


Save = Callable[[Sequence[AlertChange], Mapping[str, float]], None]
Reached = Callable[[str], None]
Key = tuple[str, str, str]


@dataclass
class _GroupState:
    """What is remembered of a group between evaluations; `alerts` by the key of the rule."""

    group: RuleGroup
    alerts: dict[str, Alerts] = field(default_factory=dict)
    results: tuple[RuleResult, ...] = ()
    evaluated_at: float | None = None
    slot: float | None = None
    seconds: float | None = None
    missed: int = 0


def ignore_point(point: str) -> None:
    """Where nobody wants to know what was reached."""


class Evaluation:
    """The rules with their states."""

    def __init__(
        self, book: Rulebook, sources: Sources, save: Save, page_url: str, reached: Reached = ignore_point
    ):
        """`save` stores transitions and times of evaluation, or raises StoreUnavailable."""
        self._book, self._sources, self._save = book, sources, save
        self._context = TemplateContext(external_url=page_url)
        self._reached = reached
        self._running = threading.Lock()
        self._groups = {group.key: _GroupState(group) for group in book.groups}
        self._ended: tuple[StoredAlert, ...] = ()  # resolved with their rule
        self._reasons: dict[Key, str] = {}
        self._unsaved: list[AlertChange] = []
        #: Totals since the start of this process.
        self.evaluations = self.failures = 0

    # -- at the start, and when the files changed ------------------------------------------------------

    def load(self, stored: Iterable[StoredAlert], evaluated_at: Mapping[str, float], now: float) -> None:
        """Take up the alerts of the time before. Alerts whose rule is gone end."""
        with self._running:
            for one in stored:
                self._reasons[one.group, one.rule, one.alert.fingerprint] = one.reason
                state_ = self._groups.setdefault(one.group, _GroupState(RuleGroup(one.group, ())))
                known = dict(state_.alerts.get(one.rule, {}))
                state_.alerts[one.rule] = {**known, one.alert.fingerprint: one.alert}
            shifted: list[AlertChange] = []
            for key, state_ in self._groups.items():
                state_.evaluated_at = evaluated_at.get(key)
                before = {rule: dict(alerts) for rule, alerts in state_.alerts.items()}
                _resume(state_, now)
                shifted += _shifted(key, before, state_.alerts, now)
            self._store(shifted, {})  # or a second restart would count the first outage
            self._adopt(self._book, now)

    def replace(self, book: Rulebook, now: float) -> None:
        """Other rules from now on; alerts of rules that stay go on."""
        with self._running:
            self._adopt(book, now)

    def _adopt(self, book: Rulebook, now: float) -> None:
        wanted = {group.key: group for group in book.groups}
        changes: list[AlertChange] = []
        for key, state_ in list(self._groups.items()):
            keys = _alerting(wanted[key]) if key in wanted else set()
            for rule in state_.alerts.keys() - keys:
                changes += self._clear(key, rule, state_.alerts.pop(rule), now)
            if key not in wanted:
                del self._groups[key]
                self._sources.forget(key)
        for key, group in wanted.items():
            known = self._groups.setdefault(key, _GroupState(group))
            if known.group != group:
                known.group, known.results = group, ()
        self._book = book
        self._store(changes, {})

    def _clear(self, group: str, rule: str, alerts: Alerts, now: float) -> list[AlertChange]:
        after, transitions = state.clear(alerts, now, "its rule is gone from the files")
        ended = [
            StoredAlert(group, rule, alert, "its rule is gone from the files") for alert in after.values()
        ]
        self._ended = (*self._ended, *ended)
        return [AlertChange(group, rule, transition) for transition in transitions]

    # -- evaluating ------------------------------------------------------------------------------------

    def tick(self, at: float) -> None:
        """Evaluate the groups that are due at `at`, the time of the newest scrape."""
        with self._running:
            due = []
            for state_ in self._groups.values():
                slot = engine.slot(state_.group, at, self._book.interval)
                if state_.slot is None or slot > state_.slot or at < state_.slot:  # a clock set back
                    state_.missed += engine.missed_evaluations(
                        state_.group, state_.slot, slot, self._book.interval
                    )
                    state_.slot = slot
                    due.append(state_)
            self._evaluate(due, self._sources.rules_source(at, live=False), at)

    def evaluate_immediate(self, now: float) -> None:
        """Evaluate, with the values of now, the groups that hear at once of the life of queries."""
        with self._running:
            alive = [one for one in self._groups.values() if immediate_rules.is_immediate(one.group)]
            due = [one for one in alive if one.evaluated_at != now]
            self._evaluate(due, self._sources.rules_source(now, live=True), now)

    def _evaluate(self, due: Sequence[_GroupState], source: SeriesSource, at: float) -> None:
        if not due:
            return
        self._forget_ended(at)
        results = [self._answer(one, source, at) for one in due]
        changes = [change for result in results for change in _changes(result)]
        self._store(changes, {result.group.key: at for result in results})
        self._reached("alerts stored")
        for one, result in zip(due, results, strict=True):
            self._take(one, result)

    def _answer(self, one: _GroupState, source: SeriesSource, at: float) -> GroupResult:
        states = [one.alerts.get(key, {}) for key in rule_keys(one.group)]
        try:
            return engine.evaluate_group(one.group, source, states, at, self._context)
        except Exception as error:  # a mistake of ours in one group must not end the others
            if not any(result.error for result in one.results):
                log.exception("the rules of %s cannot be evaluated", one.group.name)
            words = f"it cannot be evaluated: {type(error).__name__}"
            pairs = zip(one.group.rules, states, strict=True)
            rules = tuple(RuleResult(rule, alerts, error=words) for rule, alerts in pairs)
            return GroupResult(one.group, at, rules, 0.0)

    def _take(self, one: _GroupState, result: GroupResult) -> None:
        keys = rule_keys(one.group)
        self.evaluations += len(result.rules)
        self.failures += len(result.errors)
        for name in result.errors.keys() - {r.rule.name for r in one.results if r.error}:
            log.warning("the rule %s of %s failed: %s", name, one.group.name, result.errors[name])
        one.alerts = dict(zip(keys, result.states, strict=True))
        one.results, one.evaluated_at, one.seconds = result.rules, result.at, result.seconds
        self._sources.record(one.group.key, result.recorded)

    def _store(self, changes: Sequence[AlertChange], evaluated: Mapping[str, float]) -> None:
        for change in changes:
            alert, transition = change.transition.alert, change.transition
            key = change.group, change.rule, alert.fingerprint
            if transition.after is None:
                self._reasons.pop(key, None)
            else:
                self._reasons[key] = transition.reason
        _log_changes(changes)
        self._unsaved = [*self._unsaved, *changes][-MAX_UNSAVED:]
        try:
            self._save_all(evaluated)
        except StoreUnavailable as error:
            log.error("alerts cannot be stored now, people are told all the same: %s", error)
        except Exception:
            log.exception(
                "%d changes of alerts cannot be stored at all", len(self._unsaved[:SAVE_BATCH_SIZE])
            )
            del self._unsaved[:SAVE_BATCH_SIZE]  # or nothing after them would be stored either

    def _save_all(self, evaluated: Mapping[str, float]) -> None:
        """In parts, each of which the store takes in time."""
        while len(self._unsaved) > SAVE_BATCH_SIZE:
            self._save(tuple(self._unsaved[:SAVE_BATCH_SIZE]), {})
            del self._unsaved[:SAVE_BATCH_SIZE]
        self._save(tuple(self._unsaved), evaluated)
        self._unsaved.clear()

    def _forget_ended(self, now: float) -> None:
        young = now - state.RESOLVED_RETENTION_SECONDS
        self._ended = tuple(one for one in self._ended if (one.alert.resolved_at or 0.0) > young)
        kept = {(one.group, one.rule, one.alert.fingerprint) for one in self.alerts()}
        self._reasons = {key: words for key, words in self._reasons.items() if key in kept}

    # -- reading ---------------------------------------------------------------------------------------

    def alerts(self) -> tuple[StoredAlert, ...]:
        """Alerts that are pending, fire or were resolved a moment ago."""
        present = [
            StoredAlert(key, rule, alert, self._reasons.get((key, rule, fingerprint), ""))
            for key, one in list(self._groups.items())
            for rule, alerts in list(one.alerts.items())
            for fingerprint, alert in alerts.items()
        ]
        return (*present, *self._ended)

    def group_name(self, key: str) -> str:
        known = self._groups.get(key)
        return known.group.name if known else key.rpartition(";")[2]

    def groups(self) -> tuple[GroupView, ...]:
        return tuple(_view(one, self._book.interval) for one in list(self._groups.values()))


def _resume(one: _GroupState, now: float) -> None:
    """Take the time that nobody looked out of what waits."""
    rules = dict(zip(rule_keys(one.group), one.group.rules, strict=True))
    for key, alerts in one.alerts.items():
        rule = rules.get(key)
        if rule is not None and one.evaluated_at is not None:
            one.alerts[key] = state.resume(alerts, rule, one.evaluated_at, now)


def _shifted(
    group: str, before: Mapping[str, Alerts], after: Mapping[str, Alerts], now: float
) -> list[AlertChange]:
    """Pending alerts that wait longer, since nobody looked for a while."""
    return [
        AlertChange(
            group, rule, Transition(alert, alert.state, alert.state, now, "the server was away meanwhile")
        )
        for rule, alerts in after.items()
        for key, alert in alerts.items()
        if alert.state is AlertState.PENDING and alert.active_at != before[rule][key].active_at
    ]


def _changes(result: GroupResult) -> list[AlertChange]:
    keys = rule_keys(result.group)
    return [
        AlertChange(result.group.key, key, transition)
        for key, rule in zip(keys, result.rules, strict=True)
        for transition in rule.transitions
    ]


def _alerting(group: RuleGroup) -> set[str]:
    """Keys of the rules that raise alerts."""
    pairs = zip(rule_keys(group), group.rules, strict=True)
    return {key for key, rule in pairs if rule.kind is RuleKind.ALERT}


def _view(one: _GroupState, interval: float) -> GroupView:
    keys = rule_keys(one.group)
    results = one.results if len(one.results) == len(keys) else (None,) * len(keys)
    rules = tuple(
        RuleView(
            rule=rule,
            alerts=_unresolved(one.alerts.get(key, {})),
            error=result.error if result else None,
            evaluated_at=one.evaluated_at if result else None,
            seconds=result.seconds if result else None,
        )
        for rule, key, result in zip(one.group.rules, keys, results, strict=True)
    )
    every = one.group.interval or interval
    return GroupView(one.group, every, one.evaluated_at, one.seconds, one.missed, rules)


def _unresolved(alerts: Alerts) -> tuple[Alert, ...]:
    return tuple(alert for alert in alerts.values() if alert.state is not AlertState.RESOLVED)


def _log_changes(changes: Sequence[AlertChange]) -> None:
    """A line for each in the log; where a whole fleet fails, the first of them."""
    loud = [change for change in changes if change.transition.after in LOGGED_STATES]
    for change in loud[:MAX_LOG_LINES]:
        log.info("%s", _log_line(change))
    if len(loud) > MAX_LOG_LINES:
        log.info("… and %d more alerts changed", len(loud) - MAX_LOG_LINES)


def _log_line(change: AlertChange) -> str:
    transition = change.transition
    labels = {k: v for k, v in transition.alert.labels.items() if k != state.ALERT_NAME}
    named = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))[:300]
    became = transition.after.value if transition.after else "gone"
    return f"alert {transition.alert.rule} {became}: {transition.reason} {{{named}}}"
