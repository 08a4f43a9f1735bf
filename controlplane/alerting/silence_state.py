"""In-memory copy of the stored silences and acknowledgements. Thread-safe.

Updated by `alert_queries` after each write; read by the notifier and the API.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from alerts.acknowledgements import Acknowledgement
from alerts.silences import Silence, SilenceState


class SilenceStates:
    """Current silences and acknowledgements."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._silences: dict[str, Silence] = {}
        self._acknowledgements: tuple[Acknowledgement, ...] = ()

    def load(self, silences: Iterable[Silence], acknowledgements: Iterable[Acknowledgement]) -> None:
        """Replace the content with the store's, at the start and after pruning."""
        with self._lock:
            self._silences = {silence.id: silence for silence in silences}
            self._acknowledgements = tuple(acknowledgements)

    @property
    def silences(self) -> tuple[Silence, ...]:
        with self._lock:
            return tuple(self._silences.values())

    def active(self, now: float) -> tuple[Silence, ...]:
        """Silences that are active at `now`."""
        return tuple(silence for silence in self.silences if silence.state(now) is SilenceState.ACTIVE)

    @property
    def acknowledgements(self) -> tuple[Acknowledgement, ...]:
        return self._acknowledgements

    def silence(self, id: str) -> Silence | None:
        return self._silences.get(id)

    def put(self, silences: Iterable[Silence]) -> None:
        """Add silences, or replace those with the same id."""
        with self._lock:
            self._silences = {**self._silences, **{silence.id: silence for silence in silences}}

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        with self._lock:
            self._acknowledgements = (*self._acknowledgements, acknowledgement)
