"""Inhibition, as in Alertmanager: while a source alert fires, its target alerts are not notified.

Build an `Inhibitor` from the rules and the alerts, then query it for each label set. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from alerts.matching.labels import Labels, Matcher, matches
from alerts.state import Alert, AlertState


@dataclass(frozen=True)
class InhibitRule:
    """A firing alert that matches `sources` inhibits those that match `targets` and have equal labels `equal`.

    A label absent from both is equal.
    """

    sources: tuple[Matcher, ...]
    targets: tuple[Matcher, ...]
    equal: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class _Source:
    fingerprint: str
    is_target_too: bool


class Inhibitor:
    """Index of the firing source alerts by the values of the labels that must be equal."""

    def __init__(self, rules: Sequence[InhibitRule], alerts: Iterable[Alert]):
        firing = [alert for alert in alerts if alert.state is AlertState.FIRING]
        self._rules = [(rule, _sources(rule, firing)) for rule in rules]

    def inhibiting(self, labels: Labels) -> tuple[str, ...]:
        """Fingerprints of the alerts that inhibit an alert with these labels; at most one per rule.

        An alert that is source and target of a rule is not inhibited by another such alert, since they
        would inhibit each other.
        """
        found = []
        for rule, sources in self._rules:
            if not sources or not matches(rule.targets, labels):
                continue
            both = matches(rule.sources, labels)
            for source in sources.get(_key(rule, labels), ()):
                if not (both and source.is_target_too):
                    found.append(source.fingerprint)
                    break
        return tuple(dict.fromkeys(found))


def _sources(rule: InhibitRule, firing: Iterable[Alert]) -> dict[tuple[str, ...], list[_Source]]:
    found: dict[tuple[str, ...], list[_Source]] = {}
    for alert in firing:
        if matches(rule.sources, alert.labels):
            source = _Source(alert.fingerprint, matches(rule.targets, alert.labels))
            found.setdefault(_key(rule, alert.labels), []).append(source)
    return found


def _key(rule: InhibitRule, labels: Labels) -> tuple[str, ...]:
    return tuple(labels.get(name, "") for name in rule.equal)
