"""Inhibition, as in Alertmanager: while a source alert fires, its target alerts are not notified.

Build an `Inhibitor` from the rules and the alerts, then query it for each label set. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from alerts.matching.labels import Labels, Matcher, matches
from alerts.state import Alert, AlertState


@dataclass(frozen=True)
class InhibitSource:
    """Matchers of a source alert, and the labels that it must share with the target."""

    matchers: tuple[Matcher, ...]
    equal: tuple[str, ...] = ()


@dataclass(frozen=True)
class InhibitRule:
    """A firing alert that matches `sources` inhibits those that match `targets` and have equal labels `equal`.

    A label absent from both is equal. Where there are `further` sources, an alert of each must fire.
    """

    sources: tuple[Matcher, ...]
    targets: tuple[Matcher, ...]
    equal: tuple[str, ...] = ()
    name: str = ""
    further: tuple[InhibitSource, ...] = ()

    def all_sources(self) -> tuple[InhibitSource, ...]:
        """Every source, each with its equal labels."""
        return (InhibitSource(self.sources, self.equal), *self.further)


@dataclass(frozen=True)
class _Source:
    fingerprint: str
    is_target_too: bool


#: The firing alerts of a source, by the values of its equal labels.
_Index = dict[tuple[str, ...], list[_Source]]


class Inhibitor:
    """Index of the firing source alerts by the values of the labels that must be equal."""

    def __init__(self, rules: Sequence[InhibitRule], alerts: Iterable[Alert]):
        firing = [alert for alert in alerts if alert.state is AlertState.FIRING]
        self._rules = [
            (rule, [(source, _index(rule, source, firing)) for source in rule.all_sources()])
            for rule in rules
        ]

    def inhibiting(self, labels: Labels) -> tuple[str, ...]:
        """Fingerprints of the alerts that inhibit an alert with these labels; at most one per source.

        An alert that is source and target of a rule is not inhibited by another such alert, since they
        would inhibit each other.
        """
        found: list[str] = []
        for rule, sources in self._rules:
            if all(index for _, index in sources) and matches(rule.targets, labels):
                by = [_inhibiting(source, index, labels) for source, index in sources]
                found += [fingerprint for fingerprint in by if fingerprint] if all(by) else []
        return tuple(dict.fromkeys(found))


def _inhibiting(source: InhibitSource, index: _Index, labels: Labels) -> str | None:
    both = matches(source.matchers, labels)
    candidates = index.get(_key(source.equal, labels), ())
    return next((c.fingerprint for c in candidates if not (both and c.is_target_too)), None)


def _index(rule: InhibitRule, source: InhibitSource, firing: Iterable[Alert]) -> _Index:
    found: _Index = {}
    for alert in firing:
        if matches(source.matchers, alert.labels):
            item = _Source(alert.fingerprint, matches(rule.targets, alert.labels))
            found.setdefault(_key(source.equal, alert.labels), []).append(item)
    return found


def _key(equal: Sequence[str], labels: Labels) -> tuple[str, ...]:
    return tuple(labels.get(name, "") for name in equal)
