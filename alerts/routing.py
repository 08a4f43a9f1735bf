"""The tree of routes: labels of an alert → who is told, how alerts are grouped, and how often.

Alertmanager's: a route inherits what it does not say itself; the first child that matches takes the
alert, and those after it too where it says `continue`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from alerts.matching.labels import Labels, Matcher, matches

GROUP_WAIT_SECONDS = 30.0
GROUP_INTERVAL_SECONDS = 300.0
REPEAT_INTERVAL_SECONDS = 14_400.0


@dataclass(frozen=True)
class Timing:
    """Seconds: before the first message of a group, between two of them, and before one is repeated."""

    group_wait: float = GROUP_WAIT_SECONDS
    group_interval: float = GROUP_INTERVAL_SECONDS
    repeat_interval: float = REPEAT_INTERVAL_SECONDS


@dataclass(frozen=True)
class AlertRoute:
    """One route with everything it inherits filled in. `group_by` None: every alert is a group of its own.

    `key` is what Alertmanager calls it: `{}/{team="data"}`.
    """

    key: str
    receiver: str
    matchers: tuple[Matcher, ...] = ()
    group_by: tuple[str, ...] | None = ()
    timing: Timing = Timing()
    continues: bool = False
    routes: tuple[AlertRoute, ...] = ()

    def group_labels(self, labels: Labels) -> dict[str, str]:
        """The labels that name the group of an alert; those it lacks are left out."""
        if self.group_by is None:
            return dict(labels)
        return {name: labels[name] for name in self.group_by if name in labels}


def matching_routes(root: AlertRoute, labels: Labels) -> tuple[AlertRoute, ...]:
    """The routes an alert takes, in the tree's order; the root takes what no other does."""
    return tuple(_taken(root, labels))


def _taken(route: AlertRoute, labels: Labels) -> Iterator[AlertRoute]:
    if not matches(route.matchers, labels):
        return
    any_child = False
    for child in route.routes:
        taken = tuple(_taken(child, labels))
        yield from taken
        any_child = any_child or bool(taken)
        if taken and not child.continues:
            return
    if not any_child:
        yield route


def walk(root: AlertRoute) -> Iterator[AlertRoute]:
    """Every route of the tree, a parent before its children."""
    yield root
    for child in root.routes:
        yield from walk(child)


def matchers_text(matchers: tuple[Matcher, ...]) -> str:
    """`{a="b",c=~"d"}`, sorted as Alertmanager sorts them."""
    ordered = sorted(matchers, key=lambda m: (m.name, m.value, m.operator))
    return "{" + ",".join(str(matcher) for matcher in ordered) + "}"
