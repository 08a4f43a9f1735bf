"""Groups of alerts and their timers: which group is due at `now`, and what becomes of it afterwards.

A group waits `group_wait` for its first message, `group_interval` for each later one; after a failed
one it is due again sooner. Pure: the server keeps the groups in memory and makes them anew from the
firing alerts after a restart; the log of what was sent (`alerts.notify.reasons`) keeps them from being
told twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from alerts.routing import AlertRoute, Timing, matching_routes
from alerts.state import Alert, AlertState

FIRST_RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class Group:
    """Alerts that are told together. `key` is Alertmanager's: `{}/{team="data"}:{alertname="Stuck"}`.

    `failures`: messages in a row that no receiver took, the last at `tried_at`.
    """

    key: str
    receiver: str
    labels: Mapping[str, str]
    timing: Timing
    created_at: float
    alerts: Mapping[str, Alert] = field(default_factory=dict)
    flushed_at: float | None = None
    tried_at: float | None = None
    failures: int = 0

    @property
    def name(self) -> tuple[str, str]:
        """Unique: one group of a route may not go to two receivers, but two routes may look alike."""
        return self.key, self.receiver

    def due_at(self) -> float:
        """When the group is to be looked at next."""
        if self.failures and self.tried_at is not None:
            return self.tried_at + retry_after(self.failures, self.timing)
        if self.flushed_at is None:
            return self.created_at + self.timing.group_wait
        return self.flushed_at + self.timing.group_interval


Groups = Mapping[tuple[str, str], Group]
#: Groups that are being changed, each with the alerts inside it: a copy for each alert would take for ever.
_Changed = dict[tuple[str, str], tuple[Group, dict[str, Alert]]]


def retry_after(failures: int, timing: Timing) -> float:
    """Seconds until a message is tried again: doubled with each failure, up to the group's own interval."""
    return min(
        FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 20), max(timing.group_interval, FIRST_RETRY_SECONDS)
    )


def due(groups: Groups, now: float) -> tuple[Group, ...]:
    """Groups to look at now, the longest overdue first."""
    return tuple(sorted((g for g in groups.values() if g.due_at() <= now), key=Group.due_at))


def next_due_at(groups: Groups) -> float | None:
    """When the next group is due; None where there is none."""
    return min((group.due_at() for group in groups.values()), default=None)


def add_alerts(groups: Groups, alerts: Iterable[Alert], root: AlertRoute) -> dict[tuple[str, str], Group]:
    """The groups with these alerts put in, by the tree of routes. Pending alerts are left out.

    A resolved alert joins only a group that knows it: nobody was told that it fired.
    """
    changed: _Changed = {}
    for alert in alerts:
        if alert.state is AlertState.PENDING:
            continue
        for route in matching_routes(root, alert.labels):
            _put(changed, groups, route, alert)
    return {**groups, **{name: group for name, (group, _) in changed.items()}}


def _put(changed: _Changed, groups: Groups, route: AlertRoute, alert: Alert) -> None:
    labels = route.group_labels(alert.labels)
    name, fingerprint = (group_key(route, labels), route.receiver), alert.fingerprint
    group = changed[name][0] if name in changed else groups.get(name)
    if group is None:
        if alert.state is not AlertState.FIRING:
            return
        began = alert.active_at if alert.fired_at is None else alert.fired_at
        group = Group(*name, labels, route.timing, created_at=began)
    elif alert.state is AlertState.RESOLVED and fingerprint not in group.alerts:
        return
    if name not in changed:
        inside = dict(group.alerts)
        changed[name] = replace(group, timing=route.timing, alerts=inside), inside
    changed[name][1][fingerprint] = alert


def group_key(route: AlertRoute, labels: Mapping[str, str]) -> str:
    """Alertmanager's group key; the same after a restart."""
    inside = ", ".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return f"{route.key}:{{{inside}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def after_delivery(group: Group, told: Mapping[str, Alert], now: float) -> Group | None:
    """The group after a look that went well; None: nothing is left in it.

    `told`: the alerts as they were at the look. What was resolved then is let go; what changed since stays.
    """
    over = {key for key, alert in told.items() if alert.state is AlertState.RESOLVED}
    left = {
        key: alert for key, alert in group.alerts.items() if key not in over or alert is not told.get(key)
    }
    if not left:
        return None
    return replace(group, alerts=left, flushed_at=now, tried_at=now, failures=0)


def clamp_times(group: Group, now: float) -> Group:
    """The group with no time after `now`: a clock that is set back must not keep it waiting."""
    times = (group.created_at, group.flushed_at, group.tried_at)
    if all(at is None or at <= now for at in times):
        return group
    created, flushed, tried = (at if at is None else min(at, now) for at in times)
    return replace(group, created_at=created or now, flushed_at=flushed, tried_at=tried)


def after_failure(group: Group, now: float) -> Group:
    """The group after a message that no receiver took: it is due again after a while."""
    return replace(group, tried_at=now, failures=group.failures + 1)
