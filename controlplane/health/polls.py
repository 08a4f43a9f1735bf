"""Times at which an agent listed all queries of its driver. Pure.

`controlplane.events.lifecycle` records them; `controlplane.health.terminal_status` finds the first list that lacks a
query. An agent lists its queries every ten seconds, and at once when one starts, so only the first list of each
period is kept. The result does not depend on the order of arrival.
"""

from __future__ import annotations

PERIOD_SECONDS = 10.0
#: More than five minutes: longer than a query may be unlisted before it counts as lost.
MAX_POLLS = 32


def with_poll(known: tuple[float, ...], at: float) -> tuple[float, ...]:
    """The known times, oldest first, and another (Unix seconds)."""
    earliest: dict[float, float] = {}
    for poll in (*known, at):
        period = poll // PERIOD_SECONDS
        earliest[period] = min(poll, earliest.get(period, poll))
    return tuple(sorted(earliest.values())[-MAX_POLLS:])


def first_after(known: tuple[float, ...], at: float) -> float | None:
    """The first known time after `at`; None if there is none."""
    return next((poll for poll in known if poll > at), None)
