"""Put a file of applications in force: what it adds, changes and removes. Pure.

A person's word outlives the file: the desired state changes only where the file's own has changed since it was applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.apps.model import AppSpec, driver_from_json
from controlplane.errors import Conflict
from controlplane.store.supervision.apps import AppRow

ADDED, CHANGED, REMOVED, UNCHANGED = "added", "changed", "removed", "unchanged"


@dataclass(frozen=True)
class DeclaredChanges:
    """What an application of the file changes: rows to store, names to remove, and the kind of change by name."""

    stored: Sequence[AppRow]
    removed: Sequence[str]
    changes: Mapping[str, str]


def plan(rows: Iterable[AppRow], specs: Iterable[AppSpec], actor: str, now: float) -> DeclaredChanges:
    """The changes. Conflict if an application whose driver has not ended is missing in the file, or moves away from it."""
    known = {row.name: row for row in rows}
    wanted = {spec.name: spec for spec in specs}
    _check_drivers(known, wanted)
    stored, changes = [], {}
    for name, spec in wanted.items():
        row = _row(known.get(name), spec, actor, now)
        changes[name] = ADDED if name not in known else CHANGED if row != known[name] else UNCHANGED
        if changes[name] != UNCHANGED:
            stored.append(row)
    removed = sorted(known.keys() - wanted.keys())
    return DeclaredChanges(stored, removed, {**changes, **dict.fromkeys(removed, REMOVED)})


def _check_drivers(known: Mapping[str, AppRow], wanted: Mapping[str, AppSpec]) -> None:
    lives = [name for name in known.keys() - wanted.keys() if _may_live(known[name])]
    if lives:
        names = ", ".join(sorted(lives))
        message = f"the file leaves out applications whose driver has not ended: {names}. Stop them first"
        raise Conflict(message, code="driver_not_ended", detail={"apps": sorted(lives)})


def _may_live(row: AppRow) -> bool:
    driver = driver_from_json(row.driver)
    return driver is not None and driver.ended_at is None


def _row(known: AppRow | None, spec: AppSpec, actor: str, now: float) -> AppRow:
    document, desired = spec.to_json(), spec.desired.value
    if known is None:
        return AppRow(spec.name, document, now, actor, desired, desired, now, actor)
    if dict(known.spec) == document:
        return known
    row = replace(known, spec=document, declared_at=now, declared_by=actor, declared_desired=desired)
    if desired == known.declared_desired:
        return row
    return replace(row, desired=desired, desired_at=now, desired_by=actor)
