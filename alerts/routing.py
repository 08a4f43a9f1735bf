"""Routing tree, as in Alertmanager: maps an alert's labels to receiver, grouping and timing.

A route inherits settings it does not set. An alert follows the first matching child, and further children
where that child sets `continue`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from alerts.matching.labels import Labels, Matcher, matches
from alerts.time_intervals import Schedule

GROUP_WAIT_SECONDS = 30.0
GROUP_INTERVAL_SECONDS = 300.0
REPEAT_INTERVAL_SECONDS = 14_400.0


@dataclass(frozen=True)
class Timing:
    """Seconds before a group's first message, between two messages, and before a repetition."""

    group_wait: float = GROUP_WAIT_SECONDS
    group_interval: float = GROUP_INTERVAL_SECONDS
    repeat_interval: float = REPEAT_INTERVAL_SECONDS


@dataclass(frozen=True)
class AlertRoute:
    """A route with its inherited settings. `group_by` None (`...`): every alert is its own group.

    `key` is Alertmanager's: `{}/{team="data"}`.
    """

    key: str
    receiver: str
    matchers: tuple[Matcher, ...] = ()
    group_by: tuple[str, ...] | None = ()
    timing: Timing = Timing()
    continues: bool = False
    schedule: Schedule = field(default_factory=Schedule)
    routes: tuple[AlertRoute, ...] = ()

    def group_labels(self, labels: Labels) -> dict[str, str]:
        """The labels of the alert's group; omits labels that the alert lacks."""
        if self.group_by is None:
            return dict(labels)
        return {name: labels[name] for name in self.group_by if name in labels}


def matching_routes(root: AlertRoute, labels: Labels) -> tuple[AlertRoute, ...]:
    """The routes that match an alert, in tree order; the root matches what no child does."""
    return tuple(_matching(root, labels))


def _matching(route: AlertRoute, labels: Labels) -> Iterator[AlertRoute]:
    if not matches(route.matchers, labels):
        return
    any_child = False
    for child in route.routes:
        found = tuple(_matching(child, labels))
        yield from found
        any_child = any_child or bool(found)
        if found and not child.continues:
            return
    if not any_child:
        yield route


def walk(root: AlertRoute) -> Iterator[AlertRoute]:
    """Every route of the tree, parents before children."""
    yield root
    for child in root.routes:
        yield from walk(child)


def matchers_text(matchers: tuple[Matcher, ...]) -> str:
    """Format matchers as `{a="b",c=~"d"}` in Alertmanager's order."""
    ordered = sorted(matchers, key=lambda m: (m.name, m.value, m.operator))
    return "{" + ",".join(str(matcher) for matcher in ordered) + "}"
