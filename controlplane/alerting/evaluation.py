"""Evaluate rule groups when they are due, hold alert states, store transitions.

States are keyed by the rule's name within its group, so rule files may change while alerts are active. Transitions
are stored before notifications are sent; where the store is unavailable, notifications go out and the transitions
are stored later. One evaluation runs at a time; any thread may read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from alerts import engine, state
from alerts.engine import GroupResult, RuleResult
from alerts.promql.dense import as_dense
from alerts.promql.label_sets import LabelSets
from alerts.promql.series import Series, SeriesSource
from alerts.promql.shared_results import SharedResults
from alerts.rules.model import RuleGroup, RuleKind
from alerts.state import Alert, Alerts, AlertState, TemplateContext, Transition
from controlplane.alerting import immediate_rules
from controlplane.alerting.rulebook import Rulebook, rule_keys
from controlplane.alerting.views import GroupView, RuleView
from controlplane.errors import StoreUnavailable
from controlplane.store.alerting import AlertChange, StoredAlert

log = logging.getLogger(__name__)
#: Transitions worth a log line; pending is not.
LOGGED_STATES = (AlertState.FIRING, AlertState.RESOLVED)
MAX_LOG_LINES = 50
#: Transitions stored in group_state transaction, and transitions held while the store is unavailable.
SAVE_BATCH_SIZE, MAX_UNSAVED = 1_000, 20_000


class Sources(Protocol):
    """Source of the rules' series and sink of the recorded ones."""

    def rules_source(self, now: float, live: bool, together: frozenset[str] = ...) -> SeriesSource: ...
    def record(self, group_key: str, series: Sequence[Series]) -> None: ...
    def forget(self, group_key: str) -> None: ...


Save = Callable[[Sequence[AlertChange], Mapping[str, float]], None]
Reached = Callable[[str], None]
Key = tuple[str, str, str]


@dataclass
class _GroupState:
    """State of a group between evaluations; `alerts` by rule key."""

    group: RuleGroup
    alerts: dict[str, Alerts] = field(default_factory=dict)
    results: tuple[RuleResult, ...] = ()
    evaluated_at: float | None = None
    slot: float | None = None
    seconds: float | None = None
    missed: int = 0


def ignore_point(point: str) -> None:
    """Default for `reached`: do nothing."""


class Evaluation:
    """The rules and their alert states."""

    def __init__(
        self, book: Rulebook, sources: Sources, save: Save, page_url: str, reached: Reached = ignore_point
    ):
        """`save` stores transitions and times of evaluation, or raises StoreUnavailable."""
        self._book, self._sources, self._save = book, sources, save
        self._context = TemplateContext(external_url=page_url)
        self._reached = reached
        self._running = threading.Lock()
        self._groups = {group.key: _GroupState(group) for group in book.groups}
        self._shared = _shared_results(self._groups.values())
        self._ended: tuple[StoredAlert, ...] = ()  # resolved with their rule
        self._reasons: dict[Key, str] = {}
        self._unsaved: list[AlertChange] = []
        #: Totals since the start of this process.
        self.evaluations = self.failures = 0
        #: Duration of the last `tick`.
        self.seconds = 0.0

    # -- at the start, and when the files changed ------------------------------------------------------

    def load(self, stored: Iterable[StoredAlert], evaluated_at: Mapping[str, float], now: float) -> None:
        """Restore the stored alerts. Alerts whose rule was removed end."""
        with self._running:
            self._restore(stored)
            shifted: list[AlertChange] = []
            for key, group_state in self._groups.items():
                group_state.evaluated_at = evaluated_at.get(key)
                before = {rule: dict(alerts) for rule, alerts in group_state.alerts.items()}
                _resume(group_state, now)
                shifted += _shifted(key, before, group_state.alerts, now)
            self._store(shifted, {})  # otherwise a second restart would count the first outage
            self._adopt(self._book, now)

    def show(self, stored: Iterable[StoredAlert], evaluated_at: Mapping[str, float]) -> None:
        """Take over the alerts of another server, to be read: a standby evaluates and stores nothing."""
        with self._running:
            self._restore(stored)
            for key, group_state in self._groups.items():
                group_state.evaluated_at = evaluated_at.get(key)

    def _restore(self, stored: Iterable[StoredAlert]) -> None:
        """Replace the alerts of all groups."""
        alerts: dict[str, dict[str, Alerts]] = {}
        self._reasons = {}
        for entry in stored:
            self._reasons[entry.group, entry.rule, entry.alert.fingerprint] = entry.reason
            of_group = alerts.setdefault(entry.group, {})
            of_group[entry.rule] = {**of_group.get(entry.rule, {}), entry.alert.fingerprint: entry.alert}
        for key in alerts.keys() - self._groups.keys():
            self._groups[key] = _GroupState(RuleGroup(key, ()))
        for key, group_state in self._groups.items():
            group_state.alerts = alerts.get(key, {})

    def replace(self, book: Rulebook, now: float) -> None:
        """Replace the rules; alerts of unchanged rules stay."""
        with self._running:
            self._adopt(book, now)

    def _adopt(self, book: Rulebook, now: float) -> None:
        wanted = {group.key: group for group in book.groups}
        changes: list[AlertChange] = []
        for key, group_state in list(self._groups.items()):
            keys = _alerting(wanted[key]) if key in wanted else set()
            for rule in group_state.alerts.keys() - keys:
                changes += self._clear(key, rule, group_state.alerts.pop(rule), now)
            if key not in wanted:
                del self._groups[key]
                self._sources.forget(key)
        for key, group in wanted.items():
            known = self._groups.setdefault(key, _GroupState(group))
            if known.group != group:
                known.group, known.results = group, ()
        self._book, self._shared = book, _shared_results(self._groups.values())
        self._store(changes, {})

    def _clear(self, group: str, rule: str, alerts: Alerts, now: float) -> list[AlertChange]:
        after, transitions = state.clear(alerts, now, "the rule was removed")
        ended = [StoredAlert(group, rule, alert, "the rule was removed") for alert in after.values()]
        self._ended = (*self._ended, *ended)
        return [AlertChange(group, rule, transition) for transition in transitions]

    # -- evaluating ------------------------------------------------------------------------------------

    def tick(self, at: float) -> None:
        """Evaluate the groups that are due at `at`, the time of the newest scrape."""
        began = time.perf_counter()
        with self._running:
            due = []
            for group_state in self._groups.values():
                slot = engine.slot(group_state.group, at, self._book.interval)
                if (
                    group_state.slot is None or slot > group_state.slot or at < group_state.slot
                ):  # a clock set back
                    group_state.missed += engine.missed_evaluations(
                        group_state.group, group_state.slot, slot, self._book.interval
                    )
                    group_state.slot = slot
                    due.append(group_state)
            self._evaluate(due, self._sources.rules_source(at, live=False), at)
        self.seconds = time.perf_counter() - began

    def evaluate_immediate(self, now: float) -> None:
        """Evaluate the immediate groups with live values (see `immediate_rules`)."""
        with self._running:
            immediate = [
                found for found in self._groups.values() if immediate_rules.is_immediate(found.group)
            ]
            due = [found for found in immediate if found.evaluated_at != now]
            read = immediate_rules.metrics(found.group for found in immediate)
            self._evaluate(due, self._sources.rules_source(now, live=True, together=read), now)

    def _evaluate(self, due: Sequence[_GroupState], source: SeriesSource, at: float) -> None:
        if not due:
            return
        self._forget_ended(at)
        arrays = as_dense(source)
        self._shared.begin(arrays.label_sets if arrays else LabelSets())
        results = [self._answer(group_state, source, at) for group_state in due]
        self._shared.begin(LabelSets())  # the results are not needed until the next evaluation
        changes = [change for result in results for change in _changes(result)]
        self._store(changes, {result.group.key: at for result in results})
        self._reached("alerts stored")
        for group_state, result in zip(due, results, strict=True):
            self._take(group_state, result)

    def _answer(self, group_state: _GroupState, source: SeriesSource, at: float) -> GroupResult:
        states = [group_state.alerts.get(key, {}) for key in rule_keys(group_state.group)]
        try:
            return engine.evaluate_group(
                group_state.group, source, states, at, self._context, shared=self._shared
            )
        except Exception as error:  # a defect in group_state group must not affect the others
            if not any(result.error for result in group_state.results):
                log.exception("rule group %s could not be evaluated", group_state.group.name)
            message = f"internal error ({type(error).__name__}); see the server log"
            pairs = zip(group_state.group.rules, states, strict=True)
            rules = tuple(RuleResult(rule, alerts, error=message) for rule, alerts in pairs)
            return GroupResult(group_state.group, at, rules, 0.0)

    def _take(self, group_state: _GroupState, result: GroupResult) -> None:
        keys = rule_keys(group_state.group)
        self.evaluations += len(result.rules)
        self.failures += len(result.errors)
        for name in result.errors.keys() - {r.rule.name for r in group_state.results if r.error}:
            log.warning("rule %s of group %s failed: %s", name, group_state.group.name, result.errors[name])
        group_state.alerts = dict(zip(keys, result.states, strict=True))
        group_state.results, group_state.evaluated_at, group_state.seconds = (
            result.rules,
            result.at,
            result.seconds,
        )
        self._sources.record(group_state.group.key, result.recorded)

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
            log.error("alerts cannot be stored now; notifications are sent anyway: %s", error)
        except Exception:
            log.exception(
                "%d alert transitions cannot be stored and are dropped", len(self._unsaved[:SAVE_BATCH_SIZE])
            )
            del self._unsaved[:SAVE_BATCH_SIZE]  # otherwise they would block all later transitions

    def _save_all(self, evaluated: Mapping[str, float]) -> None:
        """Store in batches that fit the store's timeout."""
        while len(self._unsaved) > SAVE_BATCH_SIZE:
            self._save(tuple(self._unsaved[:SAVE_BATCH_SIZE]), {})
            del self._unsaved[:SAVE_BATCH_SIZE]
        self._save(tuple(self._unsaved), evaluated)
        self._unsaved.clear()

    def _forget_ended(self, now: float) -> None:
        oldest = now - state.RESOLVED_RETENTION_SECONDS
        self._ended = tuple(ended for ended in self._ended if (ended.alert.resolved_at or 0.0) > oldest)
        kept = {(stored.group, stored.rule, stored.alert.fingerprint) for stored in self.alerts()}
        self._reasons = {key: reason for key, reason in self._reasons.items() if key in kept}

    # -- reading ---------------------------------------------------------------------------------------

    def alerts(self) -> tuple[StoredAlert, ...]:
        """Pending, firing and recently resolved alerts."""
        present = [
            StoredAlert(key, rule, alert, self._reasons.get((key, rule, fingerprint), ""))
            for key, group_state in list(self._groups.items())
            for rule, alerts in list(group_state.alerts.items())
            for fingerprint, alert in alerts.items()
        ]
        return (*present, *self._ended)

    def group_name(self, key: str) -> str:
        """Name of a rule group by its key."""
        known = self._groups.get(key)
        return known.group.name if known else key.rpartition(";")[2]

    def groups(self) -> tuple[GroupView, ...]:
        """The rule groups with their last results."""
        return tuple(_view(group_state, self._book.interval) for group_state in list(self._groups.values()))


def _shared_results(states: Iterable[_GroupState]) -> SharedResults:
    return SharedResults(rule.node for group_state in states for rule in group_state.group.rules)


def _resume(group_state: _GroupState, now: float) -> None:
    """Exclude the outage from the waiting time of pending alerts."""
    rules = dict(zip(rule_keys(group_state.group), group_state.group.rules, strict=True))
    for key, alerts in group_state.alerts.items():
        rule = rules.get(key)
        if rule is not None and group_state.evaluated_at is not None:
            group_state.alerts[key] = state.resume(alerts, rule, group_state.evaluated_at, now)


def _shifted(
    group: str, before: Mapping[str, Alerts], after: Mapping[str, Alerts], now: float
) -> list[AlertChange]:
    """Transitions that store the longer wait of pending alerts after an outage."""
    return [
        AlertChange(
            group, rule, Transition(alert, alert.state, alert.state, now, "the server was down in between")
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
    """Keys of the alerting rules."""
    pairs = zip(rule_keys(group), group.rules, strict=True)
    return {key for key, rule in pairs if rule.kind is RuleKind.ALERT}


def _view(group_state: _GroupState, interval: float) -> GroupView:
    keys = rule_keys(group_state.group)
    results = group_state.results if len(group_state.results) == len(keys) else (None,) * len(keys)
    rules = tuple(
        RuleView(
            rule=rule,
            alerts=_unresolved(group_state.alerts.get(key, {})),
            error=result.error if result else None,
            evaluated_at=group_state.evaluated_at if result else None,
            seconds=result.seconds if result else None,
        )
        for rule, key, result in zip(group_state.group.rules, keys, results, strict=True)
    )
    every = group_state.group.interval or interval
    return GroupView(
        group_state.group, every, group_state.evaluated_at, group_state.seconds, group_state.missed, rules
    )


def _unresolved(alerts: Alerts) -> tuple[Alert, ...]:
    return tuple(alert for alert in alerts.values() if alert.state is not AlertState.RESOLVED)


def _log_changes(changes: Sequence[AlertChange]) -> None:
    """Log a line per transition, at most MAX_LOG_LINES."""
    logged = [change for change in changes if change.transition.after in LOGGED_STATES]
    for change in logged[:MAX_LOG_LINES]:
        log.info("%s", _log_line(change))
    if len(logged) > MAX_LOG_LINES:
        log.info("… and %d more alerts changed", len(logged) - MAX_LOG_LINES)


def _log_line(change: AlertChange) -> str:
    transition = change.transition
    labels = {k: v for k, v in transition.alert.labels.items() if k != state.ALERT_NAME}
    named = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))[:300]
    state_name = transition.after.value if transition.after else "inactive"
    return f"alert {transition.alert.rule} {state_name}: {transition.reason} {{{named}}}"
