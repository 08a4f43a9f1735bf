"""Commands find their agent's poll; polls end when they must."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

from controlplane.actions.outbox import REDELIVER_SECONDS, Outbox
from controlplane.model import ActionState
from tests.unit.controlplane.actions.views import NOW, requested


def test_a_command_is_due_for_its_agent_only() -> None:
    outbox = Outbox()
    outbox.put(requested())
    assert [a.id for a in outbox.due("a1", None, NOW)] == ["id-1"]
    assert outbox.due("a2", None, NOW) == []


def test_a_token_bound_to_another_app_gets_nothing() -> None:
    outbox = Outbox()
    outbox.put(requested())
    assert outbox.due("a1", "billing", NOW) == []
    assert len(outbox.due("a1", "orders", NOW)) == 1


def test_what_was_handed_over_comes_again_only_after_a_while() -> None:
    outbox = Outbox()
    action = requested()
    outbox.put(action)
    outbox.mark_sent([action], NOW)
    assert outbox.due("a1", None, NOW + REDELIVER_SECONDS - 0.1) == []
    assert len(outbox.due("a1", None, NOW + REDELIVER_SECONDS)) == 1


def test_what_could_not_be_handed_over_is_due_at_once() -> None:
    outbox = Outbox()
    action = requested()
    outbox.put(action)
    outbox.mark_sent([action], NOW)
    outbox.mark_sent([action], None)
    assert len(outbox.due("a1", None, NOW)) == 1


def test_what_runs_or_has_ended_is_not_sent_again() -> None:
    for state in (ActionState.RUNNING, ActionState.SUCCEEDED, ActionState.EXPIRED):
        outbox = Outbox()
        outbox.put(requested())
        outbox.put(replace(requested(), state=state))
        assert outbox.due("a1", None, NOW + 100) == []


def test_a_held_poll_wakes_when_another_thread_puts_a_command() -> None:
    outbox = Outbox()

    async def poll() -> float:
        outbox.bind(asyncio.get_running_loop())
        threading.Timer(0.05, outbox.put, (requested(),)).start()
        began = time.monotonic()
        await outbox.wait("a1", 5.0)
        return time.monotonic() - began

    assert asyncio.run(poll()) < 2.0
    assert outbox.held_polls == 0


def test_a_poll_ends_when_its_time_is_over() -> None:
    outbox = Outbox()

    async def poll() -> None:
        outbox.bind(asyncio.get_running_loop())
        await outbox.wait("a1", 0.01)

    asyncio.run(poll())
    assert outbox.held_polls == 0


def test_closing_ends_all_held_polls() -> None:
    outbox = Outbox()

    async def polls() -> None:
        outbox.bind(asyncio.get_running_loop())
        held = [asyncio.create_task(outbox.wait(f"a{i}", 30.0)) for i in range(50)]
        await asyncio.sleep(0.01)
        assert outbox.held_polls == 50
        outbox.close()
        await asyncio.wait_for(asyncio.gather(*held), 2.0)
        await outbox.wait("late", 30.0)

    asyncio.run(polls())
    assert outbox.closed
