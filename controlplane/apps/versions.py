"""Versions of an application: what its drivers were started from, how two differ, and which one a start takes. Pure.

A version is everything of the declaration that reaches the driver. Its fingerprint identifies it, also where nobody changed
the label `version`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from controlplane.apps.model import AppSpec, AppVersion, NewAppAction, StartedDriver, VersionSource
from controlplane.errors import Conflict

#: What of a declaration makes a version.
_PARTS = ("kind", "launcher", "version", "labels", "environment", "environment_files")
#: The launchers whose drivers can be started from an earlier declaration: what that names stays where it was.
ROLLBACK_KINDS = ("process", "command")
MAX_ROLLED_BACK = 50


def fingerprint(spec: Mapping[str, Any]) -> str:
    """The identity of a version. `spec`: see `AppSpec.to_json`."""
    parts = json.dumps({name: spec[name] for name in _PARTS}, sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def version_of(before: AppVersion | None, spec: AppSpec, source: VersionSource, now: float) -> AppVersion:
    """The version of a driver that is started now, after one of version `before`."""
    started = spec.to_json()
    if before is None:
        return AppVersion(started, now)
    replaces = before.replaces if source is VersionSource.RUNNING else None
    if fingerprint(before.spec) == fingerprint(started):
        return replace(before, replaces=replaces)
    if source is VersionSource.EARLIER:
        bad = fingerprint(before.spec)
        rolled_back = (*before.rolled_back, bad)[-MAX_ROLLED_BACK:]
        # It was healthy before: the next version can be rolled back to it again.
        return AppVersion(started, now, healthy_at=now, rolled_back=rolled_back, replaces=bad)
    earlier = before.spec if before.healthy_at is not None else before.earlier
    return AppVersion(started, now, earlier=earlier, rolled_back=before.rolled_back)


def source_of(
    wanted: NewAppAction, declared: Mapping[str, Any], driver: StartedDriver | None
) -> VersionSource:
    """Which version an action starts. Conflict for a rollback of a version that is declared no more.

    A person starts what is declared. A policy goes on with what it has rolled back to until something else is declared.
    """
    version = driver.version_record if driver is not None else None
    if wanted.rollback_of is not None:
        if version is None or wanted.rollback_of != fingerprint(declared):
            raise Conflict("another version was declared meanwhile", code="version_changed")
        return VersionSource.EARLIER
    if wanted.by_policy and version is not None and version.replaces == fingerprint(declared):
        return VersionSource.RUNNING
    return VersionSource.DECLARED


def spec_to_start(declared: AppSpec, source: VersionSource, driver: StartedDriver | None) -> AppSpec:
    """The declaration that a driver is started from."""
    version = driver.version_record if driver is not None else None
    if source is VersionSource.DECLARED or version is None:
        return declared
    spec = version.earlier if source is VersionSource.EARLIER else version.spec
    return declared if spec is None else AppSpec.from_json(spec)


def rollback_refusal(version: AppVersion, declared: Mapping[str, Any]) -> str | None:
    """Why a version cannot be rolled back, whatever its checkpoints hold; None if it can be."""
    earlier, mine = version.earlier, fingerprint(version.spec)
    if earlier is None or fingerprint(earlier) == mine:
        return "no earlier version was healthy under this policy"
    if mine in version.rolled_back:
        return "it was rolled back once, and started again since"
    if mine != fingerprint(declared):
        return "another version is declared, and not started yet"
    kinds = {earlier["kind"], version.spec["kind"]} - set(ROLLBACK_KINDS)
    if kinds:
        return f"launchers of kind {min(kinds)} cannot start an earlier version"
    return None


def differences(earlier: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    """What differs, without values that may be secret."""
    if earlier["version"] != spec["version"]:
        yield f"version {earlier['version'] or 'not set'} → {spec['version'] or 'not set'}"
    if earlier["kind"] != spec["kind"]:
        yield f"launcher {earlier['kind']} → {spec['kind']}"
    for part, title in (
        ("launcher", "launcher"),
        ("labels", "labels"),
        ("environment", "env"),
        ("environment_files", "env"),
    ):
        changed = _changed(earlier[part], spec[part])
        if changed:
            yield f"{title}: {', '.join(changed)}"


def _changed(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
