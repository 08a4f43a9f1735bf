"""Commands waiting for their agents, and the agents' polls waiting for commands.

Many threads put; the event loop waits. A held poll costs one `asyncio.Event` and no thread: `put`
wakes it by `call_soon_threadsafe`. What is here is a copy of the open actions in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass

from controlplane.actions.transitions import is_held
from controlplane.model import Action, ActionState

REDELIVER_SECONDS = 5.0  # seconds without a word from the agent: the answer to its poll was lost


@dataclass
class _Slot:
    action: Action
    handed_at: float | None = None


class Outbox:
    """Open actions by agent. Actions that are `running` stay in the agent's hands and are not sent again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[str, dict[str, _Slot]] = {}
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.held_polls = 0

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop whose polls are woken; called once it runs."""
        self._loop, self._closed = loop, False

    def put(self, action: Action) -> None:
        """Note an action's new state; a new one wakes its agent's polls."""
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
        """What to hand to this agent now; a token bound to an `app` gets only that app's commands."""
        with self._lock:
            slots = self._slots.get(agent, {}).values()
            return [s.action for s in slots if _is_due(s, now) and app in (None, s.action.app)]

    def mark_sent(self, actions: list[Action], at: float | None) -> None:
        """These went out; they come again only after `REDELIVER_SECONDS`. None: they did not go out."""
        with self._lock:
            for action in actions:
                slot = self._slots.get(action.agent or "", {}).get(action.id)
                if slot is not None:
                    slot.handed_at = at

    async def wait(self, agent: str, seconds: float) -> None:
        """Until something may be due for this agent, the time is over, or the server ends."""
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
            with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._ring, agent)

    def _ring(self, agent: str) -> None:
        for event in self._waiting.get(agent, ()):
            event.set()

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End all held polls now. Called on the loop, when the server is told to stop."""
        self._closed = True
        for agent in list(self._waiting):
            self._ring(agent)


def _is_due(slot: _Slot, now: float) -> bool:
    return slot.handed_at is None or now - slot.handed_at >= REDELIVER_SECONDS
