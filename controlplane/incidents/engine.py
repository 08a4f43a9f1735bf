"""Find incidents in the failures of the fleet. Pure.

`correlate` depends on the set of failures alone, not on the order in which they became known: it is computed anew from all
queries that are down, and from the members of open incidents that are up again. `advance` matches the result with the open
incidents by their causes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.incident_model import (
    Cause,
    CauseKind,
    Incident,
    IncidentMember,
    TrialRestart,
    TrialState,
)
from controlplane.incidents.sentences import sentence

#: Failures within this time may have one cause. Statuses other than *failed* take one to two minutes to be recognized,
#: and queries notice a lost service only at their next batch.
WINDOW_SECONDS = 600.0
#: Two failures with one condition are often a coincidence.
MIN_QUERIES = 3
#: The end of a driver is the cause of its queries' ends: no coincidence.
MIN_DRIVER_QUERIES = 2
#: What fails in one driver only has its cause there, and the driver's own alerts and policies are enough.
MIN_DRIVERS = 2
#: A source, sink, catalog or host that most of its queries still use is not the cause of the failure of some.
MIN_SHARE = 0.5
#: An incident ends when all its queries have been up for this time, so that a short recovery makes no second one.
QUIET_SECONDS = 300.0
SHARED = frozenset({CauseKind.HOST, CauseKind.CATALOG, CauseKind.SINK, CauseKind.SOURCE})
_RANK = {kind: rank for rank, kind in enumerate(CauseKind)}


@dataclass(frozen=True)
class QueryFailure:
    """A query that is down, or a member of an open incident that is up again, with its possible causes."""

    member: IncidentMember
    causes: frozenset[Cause]


Users = Callable[[Cause], int]


def correlate(failures: Iterable[QueryFailure], users: Users) -> dict[Cause, tuple[QueryFailure, ...]]:
    """Causes with the failures that they explain, each failure at most once. `users`: queries that a cause would affect.

    The cause of the highest rank comes first, among equal ones that of the most failures.
    """
    groups: dict[Cause, list[QueryFailure]] = defaultdict(list)
    for failure in failures:
        for cause in failure.causes:
            groups[cause].append(failure)
    queue = [_ranked(cause, group) for cause, group in groups.items() if len(group) >= _least(cause)]
    heapq.heapify(queue)
    found: dict[Cause, tuple[QueryFailure, ...]] = {}
    explained: set[QueryFailure] = set()
    while queue:
        place, cause = heapq.heappop(queue)[:2]
        left = [failure for failure in groups[cause] if failure not in explained]
        if (again := _ranked(cause, left))[0] != place:
            groups[cause] = left
            heapq.heappush(queue, again)
            continue
        explained_now = _explained(cause, left, users)
        if explained_now:
            found[cause] = explained_now
            explained.update(explained_now)
    return found


def _ranked(cause: Cause, group: Sequence[QueryFailure]) -> tuple[tuple[int, int, str], Cause]:
    return (_RANK[cause.kind], -len(group), cause.value), cause


def _least(cause: Cause) -> int:
    return MIN_DRIVER_QUERIES if cause.kind is CauseKind.DRIVER else MIN_QUERIES


def _explained(cause: Cause, group: Sequence[QueryFailure], users: Users) -> tuple[QueryFailure, ...]:
    """The failures that the cause explains: from the first time that enough of them fall into one window."""
    ordered = sorted(group, key=lambda f: (f.member.began_at, f.member.query_id))
    least = _least(cause)
    dense = (
        index
        for index in range(len(ordered) - least + 1)
        if ordered[index + least - 1].member.began_at - ordered[index].member.began_at <= WINDOW_SECONDS
    )
    if (first := next(dense, None)) is None:
        return ()
    explained = ordered[first:]
    if cause.kind is not CauseKind.DRIVER and len({f.member.driver for f in explained}) < MIN_DRIVERS:
        return ()
    if cause.kind in SHARED and len(explained) < MIN_SHARE * users(cause):
        return ()
    return tuple(explained)


def with_recovered(
    failures: Mapping[str, QueryFailure], incidents: Iterable[Incident], now: float
) -> list[QueryFailure]:
    """The failures together with the members of the open incidents that are up again, or down with another cause."""
    merged = dict(failures)
    recovered = []
    for incident in incidents:
        for member in incident.members:
            failure = merged.get(member.query_id)
            if failure is not None and incident.cause in failure.causes:
                began_at = min(member.began_at, failure.member.began_at)
                merged[member.query_id] = replace(failure, member=replace(failure.member, began_at=began_at))
            else:
                up = member if member.until is not None else replace(member, until=now)
                recovered.append(QueryFailure(up, frozenset({incident.cause})))
    return [*merged.values(), *recovered]


def advance(
    incidents: Iterable[Incident],
    found: Mapping[Cause, Sequence[QueryFailure]],
    new_id: Callable[[], str],
    now: float,
) -> list[Incident]:
    """The open incidents after `found` (see `correlate`): changed, new and ended ones; unchanged ones are left out."""
    known = {incident.cause: incident for incident in incidents}
    after = [_advanced(known.get(cause), cause, found[cause], new_id, now) for cause in found]
    gone = [replace(incident, ended_at=now) for cause, incident in known.items() if cause not in found]
    return [incident for incident in (*after, *gone) if known.get(incident.cause) != incident]


def _advanced(
    known: Incident | None,
    cause: Cause,
    failures: Sequence[QueryFailure],
    new_id: Callable[[], str],
    now: float,
) -> Incident:
    members = tuple(failure.member for failure in failures)
    ends = [member.until for member in members]
    quiet_since = None if None in ends else max(end for end in ends if end is not None)
    over = quiet_since is not None and now - quiet_since >= QUIET_SECONDS
    return Incident(
        id=known.id if known is not None else new_id(),
        cause=cause,
        sentence=sentence(cause, members),
        began_at=min(member.began_at for member in members),
        members=members,
        trial=_next_trial(known.trial, members) if known is not None else None,
        ended_at=quiet_since if over else None,
    )


def _next_trial(trial: TrialRestart | None, members: Sequence[IncidentMember]) -> TrialRestart | None:
    """The trial, unless what happened since asks for another one.

    After a trial that helped a member failed again; after one that failed a member is up again.
    """
    if trial is None or trial.state is TrialState.TRYING:
        return trial
    if trial.state is TrialState.HELPED:
        outdated = any(m.until is None and m.since > trial.at for m in members)
    else:
        outdated = any(m.until is not None and m.until > trial.at for m in members)
    return None if outdated else trial
