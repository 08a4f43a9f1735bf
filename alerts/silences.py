"""Silences, as in Alertmanager: for a limited time, alerts that match are not notified.

Pure: the server stores silences and passes `now` (Unix seconds).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from alerts.matching.labels import Labels, Matcher, matches


class SilenceState(StrEnum):
    """State of a silence: before, during and after its time range."""

    PENDING = "pending"
    ACTIVE = "active"
    EXPIRED = "expired"


@dataclass(frozen=True)
class Silence:
    """A silence. Times are Unix seconds; `id` is empty until the server assigns it."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_at: float
    ends_at: float
    created_by: str
    comment: str
    updated_at: float = 0.0

    def state(self, now: float) -> SilenceState:
        """The state at `now`."""
        if now >= self.ends_at:
            return SilenceState.EXPIRED
        return SilenceState.ACTIVE if now >= self.starts_at else SilenceState.PENDING

    def covers(self, labels: Labels) -> bool:
        """Whether all matchers match; ignores the time."""
        return matches(self.matchers, labels)


def validation_errors(silence: Silence, now: float) -> tuple[str, ...]:
    """Why a new silence is invalid, as messages for its author; empty if it is valid."""
    errors = []
    if not silence.matchers:
        errors.append("a silence needs at least one matcher")
    elif all(matcher.matches({}) for matcher in silence.matchers):
        errors.append(
            "at least one matcher must not match the empty string, since all alerts would be silenced"
        )
    if silence.ends_at <= silence.starts_at:
        errors.append("a silence must end after it starts")
    elif silence.ends_at <= now:
        errors.append("a silence must end in the future")
    if not silence.created_by:
        errors.append("a silence needs a creator")
    return tuple(errors)


def silenced_by(silences: Iterable[Silence], labels: Labels, now: float) -> tuple[str, ...]:
    """Ids of the active silences that cover an alert of these labels."""
    return tuple(s.id for s in silences if s.state(now) is SilenceState.ACTIVE and s.covers(labels))


def expire(silence: Silence, now: float) -> Silence:
    """End a silence at `now`; an expired one stays unchanged."""
    match silence.state(now):
        case SilenceState.ACTIVE:
            return replace(silence, ends_at=now, updated_at=now)
        case SilenceState.PENDING:
            return replace(silence, starts_at=now, ends_at=now, updated_at=now)
    return silence


def update(old: Silence, new: Silence, now: float) -> tuple[Silence, ...]:
    """The silences to store when `old` is changed into `new`: the changed one, or the old one ended and a new one.

    The past of an active silence must stay on record, so only its end and comment change in place. A new
    silence has no id.
    """
    same = set(old.matchers) == set(new.matchers)
    match old.state(now):
        case SilenceState.PENDING if same and new.starts_at >= now:
            return (replace(new, id=old.id, updated_at=now),)
        case SilenceState.ACTIVE if same and new.starts_at == old.starts_at:
            return (replace(new, id=old.id, updated_at=now),)
        case SilenceState.EXPIRED:
            return (_fresh(new, now),)
    return expire(old, now), _fresh(new, now)


def _fresh(silence: Silence, now: float) -> Silence:
    return replace(silence, id="", starts_at=max(silence.starts_at, now), updated_at=now)
