"""Silences: for a time, alerts that pass all of a silence's matchers are not notified. As Alertmanager has them.

Pure: the server keeps silences and calls these with `now`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from alerts.matching.labels import Labels, Matcher, matches


class SilenceState(StrEnum):
    """Before, in and after its time."""

    PENDING = "pending"
    ACTIVE = "active"
    EXPIRED = "expired"


@dataclass(frozen=True)
class Silence:
    """One silence. Times are Unix seconds; `id` is given by the server, empty before."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_at: float
    ends_at: float
    created_by: str
    comment: str
    updated_at: float = 0.0

    def state(self, now: float) -> SilenceState:
        if now >= self.ends_at:
            return SilenceState.EXPIRED
        return SilenceState.ACTIVE if now >= self.starts_at else SilenceState.PENDING

    def covers(self, labels: Labels) -> bool:
        return matches(self.matchers, labels)


def validation_errors(silence: Silence, now: float) -> tuple[str, ...]:
    """Why a silence cannot be taken, in words for the person who asks for it; nothing if it can."""
    told = []
    if not silence.matchers:
        told.append("a silence needs at least one matcher")
    elif all(matcher.matches({}) for matcher in silence.matchers):
        told.append("at least one matcher must not match the empty text, or all alerts would be silenced")
    if silence.ends_at <= silence.starts_at:
        told.append("a silence must end after it starts")
    elif silence.ends_at <= now:
        told.append("a silence must end in the future")
    if not silence.created_by:
        told.append("a silence needs to name who made it")
    return tuple(told)


def silenced_by(silences: Iterable[Silence], labels: Labels, now: float) -> tuple[str, ...]:
    """Ids of the active silences that cover an alert of these labels."""
    return tuple(s.id for s in silences if s.state(now) is SilenceState.ACTIVE and s.covers(labels))


def expire(silence: Silence, now: float) -> Silence:
    """The silence, ended at `now`; one that is over already stays as it is."""
    match silence.state(now):
        case SilenceState.ACTIVE:
            return replace(silence, ends_at=now, updated_at=now)
        case SilenceState.PENDING:
            return replace(silence, starts_at=now, ends_at=now, updated_at=now)
    return silence


def update(old: Silence, new: Silence, now: float) -> tuple[Silence, ...]:
    """What to store where somebody changes `old` into `new`: one silence, or the old one ended and a new one.

    What an active silence covered so far must stay told as it was, so only its end and comment may
    change in place. The new one comes without an id.
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
