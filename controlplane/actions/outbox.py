"""Queue of commands per agent, and the agents' long polls that wait for them.

Many threads call `put`; the event loop waits. A held poll costs one `asyncio.Event` and no thread: `put` wakes it by
`call_soon_threadsafe`. The content is a copy of the open actions in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass

from controlplane.actions.transitions import is_held
from controlplane.model import Action, ActionState

REDELIVER_SECONDS = 5.0  # without a result for this long, the response to the agent's poll was lost


@dataclass
class _Slot:
    action: Action
    sent_at: float | None = None


class Outbox:
    """Open actions by agent. An action that is `running` is not sent again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[str, dict[str, _Slot]] = {}
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        #: Number of long polls that wait now.
        self.held_polls = 0

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop whose polls `put` wakes; called once the loop runs."""
        self._loop, self._closed = loop, False

    def put(self, action: Action) -> None:
        """Record the action's state; a requested action wakes its agent's polls."""
        agent = action.agent
        if agent is None:
            return
        waiting = action.state in (ActionState.REQUESTED, ActionState.DELIVERED) and not is_held(action)
        with self._lock:
            slots = self._slots.setdefault(agent, {})
            if waiting:
                slots.setdefault(action.id, _Slot(action)).action = action
            else:
                slots.pop(action.id, None)
            if not slots:
                del self._slots[agent]
        if waiting and action.state == ActionState.REQUESTED:
            self._wake(agent)

    def due(self, agent: str, app: str | None, now: float) -> list[Action]:
        """Actions to send to this agent now; a token bound to an `app` gets only that app's commands."""
        with self._lock:
            slots = self._slots.get(agent, {}).values()
            return [s.action for s in slots if _is_due(s, now) and app in (None, s.action.app)]

    def mark_sent(self, actions: list[Action], at: float | None) -> None:
        """Record when these were sent; they are due again after `REDELIVER_SECONDS`. None: sending failed."""
        with self._lock:
            for action in actions:
                slot = self._slots.get(action.agent or "", {}).get(action.id)
                if slot is not None:
                    slot.sent_at = at

    async def wait(self, agent: str, seconds: float) -> None:
        """Wait until a command may be due for this agent, `seconds` are over, or the outbox is closed."""
        if self._closed or seconds <= 0:
            return
        event = asyncio.Event()
        self._waiting.setdefault(agent, set()).add(event)
        self.held_polls += 1
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), min(seconds, self._pause(agent)))
        finally:
            self.held_polls -= 1
            self._forget(agent, event)

    def _pause(self, agent: str) -> float:
        with self._lock:
            return REDELIVER_SECONDS if agent in self._slots else float("inf")

    def _forget(self, agent: str, event: asyncio.Event) -> None:
        events = self._waiting.get(agent, set())
        events.discard(event)
        if not events:
            self._waiting.pop(agent, None)

    def _wake(self, agent: str) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has closed: no poll waits any more
                self._loop.call_soon_threadsafe(self._set_events, agent)

    def _set_events(self, agent: str) -> None:
        for event in self._waiting.get(agent, ()):
            event.set()

    @property
    def closed(self) -> bool:
        """Whether `close` was called since the last `bind`."""
        return self._closed

    def close(self) -> None:
        """End all held polls. Called on the event loop when the server begins to stop."""
        self._closed = True
        for agent in list(self._waiting):
            self._set_events(agent)


def _is_due(slot: _Slot, now: float) -> bool:
    return slot.sent_at is None or now - slot.sent_at >= REDELIVER_SECONDS
