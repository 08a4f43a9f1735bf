"""A few at a time: the others wait, and are turned away when it takes too long."""

from __future__ import annotations

import asyncio

import pytest

from controlplane.api.limiter import EvaluationLimiter, LimiterTimeout


def test_who_comes_when_all_slots_are_taken_waits_for_one() -> None:
    async def play() -> list[str]:
        limiter, seen, leave = EvaluationLimiter(1, 30.0), [], asyncio.Event()

        async def first() -> None:
            async with limiter.acquire():
                seen.append("first sits")
                await leave.wait()
                seen.append("first leaves")

        async def second() -> None:
            async with limiter.acquire():
                seen.append("second sits")

        async with asyncio.TaskGroup() as group:
            group.create_task(first())
            group.create_task(second())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            leave.set()
        return seen

    assert asyncio.run(play()) == ["first sits", "first leaves", "second sits"]


def test_who_waited_long_enough_is_turned_away_and_the_seat_comes_back() -> None:
    async def play() -> None:
        limiter = EvaluationLimiter(1, 0.01)
        async with limiter.acquire():
            with pytest.raises(LimiterTimeout):
                async with limiter.acquire():
                    pytest.fail("there was no seat")
        with pytest.raises(TimeoutError, match="mine"):
            async with limiter.acquire():
                raise TimeoutError("mine")
        async with limiter.acquire():
            pass

    asyncio.run(play())
