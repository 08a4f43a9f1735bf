"""The server's own metrics are those of its services."""

from __future__ import annotations

from pathlib import Path

from controlplane.app import build
from controlplane.settings import Settings
from tests.drivers import Driver


def test_stages_are_measured(tmp_path: Path) -> None:
    plane = build(Settings(data_dir=tmp_path))
    plane.writer.start()
    before = plane.server_metrics()
    assert (before.judge_seconds, before.verdicts_judged, before.commit_seconds) == (None, 0, None)
    started = Driver().line("started", {"id": "q1", "runId": "r1", "name": "orders"})
    plane.ingest.answer(plane.ingest.receive([started], None, lambda event: None))
    plane.tick()
    after = plane.server_metrics()
    assert (after.events_stored, after.ingest_waiting, after.window_loading, after.agents) == (1, 0, 0, 1)
    assert after.verdicts_judged >= 1
    assert after.judge_seconds is not None
    assert after.commit_seconds is not None
    plane.stop()
