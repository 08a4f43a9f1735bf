"""What Spark's Python workers do besides our tasks."""

from __future__ import annotations

import gc

import pytest

from controlplane.pipeline.runtime import worker_daemon, worker_setup


def test_a_worker_settles_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    worker_setup.freeze_loaded_objects.cache_clear()
    worker_setup.freeze_loaded_objects()
    worker_setup.freeze_loaded_objects()
    assert frozen == [1]


def test_only_the_last_response_may_be_lost_without_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ends_with(error: Exception | None) -> None:
        def reported(sock: object, authenticated: bool) -> int:
            if error is not None:
                raise error
            return 0

        monkeypatch.setattr(worker_daemon, "_worker", reported)

    ends_with(None)
    assert worker_daemon.worker(None, True) == 0
    ends_with(BrokenPipeError(32, "Broken pipe"))
    assert worker_daemon.worker(None, True) == 1
    ends_with(ValueError("of the worker"))
    with pytest.raises(ValueError, match="of the worker"):
        worker_daemon.worker(None, True)
