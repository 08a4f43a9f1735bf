"""Silences and acknowledgements in memory, following the store. Any thread may ask.

Changed by the desk after its write, read at every look of the notifier and every drawing of a page.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from alerts.acknowledgements import Acknowledgement
from alerts.silences import Silence, SilenceState


class SilenceStates:
    """What people said about alerts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._silences: dict[str, Silence] = {}
        self._acknowledgements: tuple[Acknowledgement, ...] = ()

    def load(self, silences: Iterable[Silence], acknowledgements: Iterable[Acknowledgement]) -> None:
        """All that the store has, at the start and after it forgot some."""
        with self._lock:
            self._silences = {one.id: one for one in silences}
            self._acknowledgements = tuple(acknowledgements)

    @property
    def silences(self) -> tuple[Silence, ...]:
        with self._lock:
            return tuple(self._silences.values())

    def active(self, now: float) -> tuple[Silence, ...]:
        """Those that cover something at `now`."""
        return tuple(one for one in self.silences if one.state(now) is SilenceState.ACTIVE)

    @property
    def acknowledgements(self) -> tuple[Acknowledgement, ...]:
        return self._acknowledgements

    def silence(self, id: str) -> Silence | None:
        return self._silences.get(id)

    def put(self, silences: Iterable[Silence]) -> None:
        """New ones, and others in the place of those of their id."""
        with self._lock:
            self._silences = {**self._silences, **{one.id: one for one in silences}}

    def acknowledge(self, one: Acknowledgement) -> None:
        with self._lock:
            self._acknowledgements = (*self._acknowledgements, one)
