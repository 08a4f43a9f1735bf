"""Alert groups and their timers: which group is due at `now`, and its state after a flush.

A group waits `group_wait` before its first message and `group_interval` before each later one; after a
failure it retries sooner. Pure: the server keeps the groups in memory and rebuilds them from the firing
alerts after a restart; the notification states (`alerts.notify.reasons`) prevent duplicate notifications.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from alerts.routing import AlertRoute, Timing, matching_routes
from alerts.state import Alert, AlertState
from alerts.time_intervals import Schedule

FIRST_RETRY_SECONDS = 5.0
#: Longest wait that a receiver can ask for.
MAX_RESUME_SECONDS = 3600.0


@dataclass(frozen=True)
class Group:
    """Alerts that are notified together. `key` is Alertmanager's: `{}/{team="data"}:{alertname="Stuck"}`.

    `failures`: consecutive failed flushes, the last at `tried_at` (Unix seconds). `schedule`: when its route
    notifies. `resumes_at`: before it a receiver accepts no retry.
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
    schedule: Schedule = field(default_factory=Schedule)
    resumes_at: float = 0.0

    @property
    def name(self) -> tuple[str, str]:
        """A unique key: two routes may have equal keys but different receivers."""
        return self.key, self.receiver

    def due_at(self) -> float:
        """Unix time of the next flush."""
        if self.failures and self.tried_at is not None:
            return max(self.tried_at + retry_after(self.failures, self.timing), self.resumes_at)
        if self.flushed_at is None:
            return self.created_at + self.timing.group_wait
        return self.flushed_at + self.timing.group_interval


Groups = Mapping[tuple[str, str], Group]
#: Groups being changed, each with its mutable alerts: one copy per group, not per alert.
_Changed = dict[tuple[str, str], tuple[Group, dict[str, Alert]]]


def retry_after(failures: int, timing: Timing) -> float:
    """Seconds until the next retry: doubles with each failure, up to the group's `group_interval`."""
    return min(
        FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 20), max(timing.group_interval, FIRST_RETRY_SECONDS)
    )


def due(groups: Groups, now: float) -> tuple[Group, ...]:
    """Groups to flush now, the most overdue first."""
    return tuple(sorted((g for g in groups.values() if g.due_at() <= now), key=Group.due_at))


def next_due_at(groups: Groups) -> float | None:
    """Unix time at which the next group is due; None without groups."""
    return min((group.due_at() for group in groups.values()), default=None)


def add_alerts(groups: Groups, alerts: Iterable[Alert], root: AlertRoute) -> dict[tuple[str, str], Group]:
    """Add alerts to their groups by the routing tree. Ignores pending alerts.

    A resolved alert joins only a group that contains it; in other groups its firing was not notified.
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
        group = Group(*name, labels, route.timing, created_at=began, schedule=route.schedule)
    elif alert.state is AlertState.RESOLVED and fingerprint not in group.alerts:
        return
    if name not in changed:
        inside = dict(group.alerts)
        changed[name] = replace(group, timing=route.timing, schedule=route.schedule, alerts=inside), inside
    changed[name][1][fingerprint] = alert


def group_key(route: AlertRoute, labels: Mapping[str, str]) -> str:
    """Alertmanager's group key; stable across restarts."""
    inside = ", ".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return f"{route.key}:{{{inside}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def after_delivery(group: Group, flushed_alerts: Mapping[str, Alert], now: float) -> Group | None:
    """The group after a successful flush; None: it has no alerts left.

    `flushed_alerts`: the alerts as they were at the flush. Alerts resolved then are removed; later changes stay.
    """
    over = {key for key, alert in flushed_alerts.items() if alert.state is AlertState.RESOLVED}
    left = {
        key: alert
        for key, alert in group.alerts.items()
        if key not in over or alert is not flushed_alerts.get(key)
    }
    if not left:
        return None
    return replace(group, alerts=left, flushed_at=now, tried_at=now, failures=0, resumes_at=0.0)


def clamp_times(group: Group, now: float) -> Group:
    """Limit the group's times to `now`, so that a clock that was set back does not delay it."""
    times = (group.created_at, group.flushed_at, group.tried_at)
    if all(at is None or at <= now for at in times):
        return group
    created, flushed, tried = (at if at is None else min(at, now) for at in times)
    until = min(group.resumes_at, now + MAX_RESUME_SECONDS)
    return replace(group, created_at=created or now, flushed_at=flushed, tried_at=tried, resumes_at=until)


def after_failure(group: Group, now: float, wait: float = 0.0) -> Group:
    """The group after a failed flush: it is due again after `retry_after`, not before `wait` seconds."""
    until = now + min(wait, MAX_RESUME_SECONDS)
    return replace(group, tried_at=now, failures=group.failures + 1, resumes_at=until)


def with_timers(groups: Groups, known: Groups) -> dict[tuple[str, str], Group]:
    """Groups of new routes with the timers of the same groups of the former routes."""
    return {name: _with_timers(group, known.get(name)) for name, group in groups.items()}


def _with_timers(group: Group, known: Group | None) -> Group:
    if known is None:
        return group
    return replace(
        group,
        created_at=known.created_at,
        flushed_at=known.flushed_at,
        tried_at=known.tried_at,
        failures=known.failures,
        resumes_at=known.resumes_at,
    )
