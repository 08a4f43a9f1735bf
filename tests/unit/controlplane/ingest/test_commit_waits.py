"""Requests that wait on the event loop for the futures of commits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from controlplane.errors import StoreUnavailable
from controlplane.ingest import commit_waits
from controlplane.ingest.commit_waits import CommitWaits


def test_the_requests_of_a_commit_share_one_wake_up_and_each_waits_for_its_own_futures() -> None:
    wake_ups: list[Callable[..., Any]] = []

    async def story() -> None:
        waits, loop = CommitWaits(), asyncio.get_running_loop()
        real = loop.call_soon_threadsafe

        def counted(callback: Callable[..., Any], *args: Any, **more: Any) -> Any:
            wake_ups.append(callback)
            return real(callback, *args, **more)

        loop.call_soon_threadsafe = counted  # type: ignore[assignment]
        futures: list[Future[int]] = [Future() for _ in range(5)]
        late: Future[int] = Future()
        waiting = [asyncio.create_task(waits.all([future])) for future in futures]
        both = asyncio.create_task(waits.all([futures[0], late]))
        await asyncio.sleep(0)

        def commit() -> None:
            for future in futures[:-1]:
                future.set_result(1)
            futures[-1].set_exception(KeyError("not stored"))

        thread = threading.Thread(target=commit)
        thread.start()
        thread.join()  # the loop cannot run in between
        await asyncio.gather(*waiting)
        assert len(wake_ups) == 1
        assert not both.done()
        late.set_result(1)
        await both

    asyncio.run(story())


def test_a_store_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_waits, "WRITE_TIMEOUT_SECONDS", 0.01)
    waits, future = CommitWaits(), Future[int]()
    with pytest.raises(StoreUnavailable, match="did not answer"):
        asyncio.run(waits.all([future]))
    future.set_result(1)  # its request has gone
