"""The whole agent with a Spark that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from listeners import attachment


class HangingEngine:
    """An engine whose listeners cannot be removed."""

    independent_sessions = False

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()

    def app(self, session: Any) -> dict[str, Any]:
        return {"name": "orders", "id": "local-1"}

    def setting(self, session: Any, name: str) -> str | None:
        return None

    def classes(self) -> dict[str, type]:
        return {}

    def key(self, session: Any) -> int:
        return id(session)

    def listen(self, session: Any, listener: Any) -> Callable[[], None]:
        def remove() -> None:
            self.asked.set()
            assert self.released.wait(20)

        return remove


class Session:
    pass


def test_hanging_spark_does_not_delay_the_end_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, terminated = HangingEngine(), []
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path))
    monkeypatch.setattr(attachment, "engine_of", lambda session: engine)
    monkeypatch.setattr(attachment, "REMOVAL_SECONDS", 0.05)
    made = attachment.Attachment(
        Session(), "http://127.0.0.1:9", None, {}, None, "all", on_end=terminated.append
    )
    session = Session()
    made.add_session(session)
    made.agent.start()
    made.detach(timeout=0.5)
    assert terminated == [made] and engine.asked.is_set() and not engine.released.is_set()
    assert any(b'"app_ended"' in path.read_bytes() for path in tmp_path.rglob("*.events"))
    engine.released.set()
