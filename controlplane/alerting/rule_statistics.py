"""Statistics of the alert rules over past firings: how often, how long, acknowledged or of no use, with advice. Pure.

A firing was useless if nobody acknowledged it and its condition ended by itself within the interval of its notification
group, so that whoever was notified found nothing to do. `keep_firing_for` prolongs a firing beyond its condition and
does not count. Called by `controlplane.alerting.alert_queries`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from alerts.acknowledgements import Acknowledgement
from alerts.matching.labels import Labels
from alerts.rules import thresholds
from alerts.rules.model import Rule
from alerts.state import Alert
from controlplane.store.alerting import StoredAlert

#: Of fewer firings nothing is concluded.
MIN_FIRINGS = 5


@dataclass(frozen=True)
class RuleStatistics:
    """The firings of one rule in a period. `median_seconds`: of those that ended; None if none did."""

    rule: str
    severity: str
    firings: int
    queries: int
    firing_now: int
    total_seconds: float
    median_seconds: float | None
    acknowledged: int
    useless: int
    advice: str


@dataclass(frozen=True)
class _Firing:
    alert: Alert
    seconds: float
    acknowledged: bool
    useless: bool


def rule_statistics(
    episodes: Iterable[StoredAlert],
    acknowledgements: Iterable[Acknowledgement],
    rules: Iterable[Rule],
    interval_of: Callable[[Labels], float],
    now: float,
) -> list[RuleStatistics]:
    """One entry a rule and severity, most useless firings first. `interval_of`: group interval in seconds."""
    known = {(item.fingerprint, item.fired_at) for item in acknowledgements}
    kept = {(rule.name, rule.labels.get("severity", "")): rule for rule in rules}
    found: dict[tuple[str, str], list[_Firing]] = {}
    for alert in (item.alert for item in episodes):
        key = alert.rule, alert.labels.get("severity", "")
        held = kept[key].keep_firing_for if key in kept else 0.0
        found.setdefault(key, []).append(_firing(alert, known, interval_of(alert.labels) + held, now))
    entries = [_entry(*key, firings, kept.get(key)) for key, firings in found.items()]
    return sorted(entries, key=lambda entry: (-entry.useless, -entry.firings, entry.rule, entry.severity))


def _firing(alert: Alert, known: set[tuple[str, float]], limit: float, now: float) -> _Firing:
    fired = alert.active_at if alert.fired_at is None else alert.fired_at
    seconds = (now if alert.resolved_at is None else alert.resolved_at) - fired
    acknowledged = (alert.fingerprint, fired) in known
    useless = alert.resolved_at is not None and not acknowledged and seconds <= limit
    return _Firing(alert, seconds, acknowledged, useless)


def _entry(rule: str, severity: str, firings: Sequence[_Firing], known: Rule | None) -> RuleStatistics:
    ended = [firing.seconds for firing in firings if firing.alert.resolved_at is not None]
    queries = Counter(_subject(firing.alert) for firing in firings)
    useless = sum(firing.useless for firing in firings)
    return RuleStatistics(
        rule=rule,
        severity=severity,
        firings=len(firings),
        queries=len(queries),
        firing_now=len(firings) - len(ended),
        total_seconds=sum(firing.seconds for firing in firings),
        median_seconds=median(ended) if ended else None,
        acknowledged=sum(firing.acknowledged for firing in firings),
        useless=useless,
        advice=_advice(len(firings), useless, queries, known),
    )


def _subject(alert: Alert) -> str:
    return alert.labels.get("query") or alert.labels.get("app", "")


def _advice(firings: int, useless: int, queries: Counter[str], rule: Rule | None) -> str:
    """What to change, if most firings were useless."""
    if firings < MIN_FIRINGS or 2 * useless < firings:
        return ""
    (worst, count), *_ = queries.most_common(1)
    names = [name for name in thresholds.DEFAULTS if rule and thresholds.PREFIX + name in rule.expr]
    if names:
        change = "Record " + " or ".join(thresholds.PREFIX + name for name in names)
        subject = f" for {worst}" if 2 * count > firings else " for its queries"
    else:
        change, subject = "Lengthen its `for`, or lower its severity", ""
    return f"{useless} of {firings} firings ended by themselves before anybody could act. {change}{subject}."
