"""Values of applications: the declared application, the driver that was started for it, and what was requested.

Times are Unix seconds, durations seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from controlplane.errors import ControlPlaneError

GRACE_SECONDS = 30.0
DRAIN_SECONDS = 120.0


class DesiredAppState(StrEnum):
    """What somebody wants an application to do."""

    RUNNING = "running"
    STOPPED = "stopped"


class DriverPhase(StrEnum):
    """What a launcher knows of a driver. `unknown`: it may run."""

    NONE = "none"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class DriverStatus:
    """The state of a driver with its reason in one sentence. `at`: when the driver ended, where that is known."""

    phase: DriverPhase
    reason: str = ""
    at: float | None = None

    @property
    def may_live(self) -> bool:
        """Whether a second driver must not be started."""
        return self.phase in (DriverPhase.STARTING, DriverPhase.RUNNING, DriverPhase.UNKNOWN)


@dataclass(frozen=True)
class AppSpec:
    """An application as its file declares it. `environment` may hold secrets; values of `files` are read at the start."""

    name: str
    kind: str
    launcher: Mapping[str, Any]
    version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_files: Mapping[str, str] = field(default_factory=dict)
    desired: DesiredAppState = DesiredAppState.RUNNING
    policy: str | None = None
    grace_seconds: float = GRACE_SECONDS
    drain_seconds: float = DRAIN_SECONDS

    def to_json(self) -> dict[str, Any]:
        """The specification as JSON, for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> AppSpec:
        """The specification from the store."""
        return cls(**{**document, "desired": DesiredAppState(document["desired"])})


class VersionSource(StrEnum):
    """Which version a start takes: the declared one, that of the driver before, or the healthy one before that."""

    DECLARED = "declared"
    RUNNING = "running"
    EARLIER = "earlier"


@dataclass(frozen=True)
class AppVersion:
    """The version that a driver was started from. `spec`: see `AppSpec.to_json`; `since`: the first start of this version.

    `healthy_at`: when it was healthy for the policy's time; None before. `earlier`: the spec of the last healthy version
    before it. `rolled_back`: fingerprints of versions that were rolled back; `replaces`: of the one in whose place it runs.
    """

    spec: Mapping[str, Any]
    since: float
    healthy_at: float | None = None
    earlier: Mapping[str, Any] | None = None
    rolled_back: tuple[str, ...] = ()
    replaces: str | None = None


@dataclass(frozen=True)
class StartedDriver:
    """A driver that a launcher was asked to start. `handle`: what the launcher finds it by; None until start returned.

    `kind` and `launcher` are those of the start: the application may have been changed since. `ended_at` is set as soon
    as the launcher has seen its end.
    """

    app: str
    launch_id: str
    kind: str
    launcher: Mapping[str, Any]
    version: str
    started_at: float
    started_by: str
    handle: Mapping[str, Any] | None = None
    ended_at: float | None = None
    end_reason: str = ""
    version_record: AppVersion | None = None

    def to_json(self) -> dict[str, Any]:
        """The driver as JSON, for the store."""
        return asdict(self)


class LauncherError(ControlPlaneError):
    """A launcher failed. `may_live`: a driver may have been started, or may still run, all the same."""

    status, code = 502, "launcher_failed"

    def __init__(self, message: str, may_live: bool = False):
        super().__init__(message)
        self.may_live = may_live


class AppActionState(StrEnum):
    """The state of an action on an application."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True)
class NewAppAction:
    """A requested start, stop or restart. `actor`: the person; `via`: the token's name; `force`: start in spite of doubt.

    `by_policy`: it is no person's word, so it leaves the desired state as it is. `rollback_of`: the fingerprint of the
    version in whose place the healthy one before it is started.
    """

    action: str
    actor: str
    via: str
    reason: str = ""
    drain: bool = False
    force: bool = False
    idempotency_key: str | None = None
    by_policy: bool = False
    rollback_of: str | None = None


@dataclass(frozen=True)
class AppAction:
    """An action on an application. `reason` explains the outcome, `request_reason` the request."""

    id: str
    app: str
    action: str
    actor: str
    via: str
    requested_at: float
    request_reason: str = ""
    drain: bool = False
    force: bool = False
    idempotency_key: str | None = None
    state: AppActionState = AppActionState.RUNNING
    reason: str = ""
    finished_at: float | None = None
    source: VersionSource = VersionSource.DECLARED

    def to_json(self) -> dict[str, Any]:
        """The action as JSON, for the store."""
        return asdict(self)


def action_from_json(document: Mapping[str, Any] | None) -> AppAction | None:
    """The action from the store."""
    if document is None:
        return None
    source = VersionSource(document.get("source", VersionSource.DECLARED))
    return AppAction(**{**document, "state": AppActionState(document["state"]), "source": source})


def driver_from_json(document: Mapping[str, Any] | None) -> StartedDriver | None:
    """The driver from the store."""
    if document is None:
        return None
    version = document.get("version_record")
    if version is not None:
        version = AppVersion(**{**version, "rolled_back": tuple(version["rolled_back"])})
    return StartedDriver(**{**document, "version_record": version})
