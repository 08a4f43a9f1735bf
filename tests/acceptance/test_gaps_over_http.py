"""Missing batch reports: shown with their query, and counted unless they arrive late."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from controlplane.events.gaps import GRACE_SECONDS
from tests.acceptance.live import LiveServer, live_server
from tests.drivers import Driver, report

QUERY = str(uuid.uuid4())
RUN, NEXT = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
COUNTER = "spark_streaming_batches_unreported_total"


def test_a_gap_is_shown_counted_once_and_closed_by_what_comes_late(tmp_path: Path) -> None:
    ahead = [0.0]
    with live_server(tmp_path, lambda: time.time() + ahead[0]) as server:
        driver = Driver()

        def send_batches(*batches: int, run_id: str = RUN) -> None:
            lines = [
                driver.line("progress", report(QUERY, run_id, batch, time.time()), time.time() + ahead[0])
                for batch in batches
            ]
            with server.client(server.agent_token) as client:
                answer = client.post("/api/v1/events", content=b"\n".join(lines))
            assert answer.json()["stored"] == len(batches)

        send_batches(7, 8, 11)
        send_batches(11, 12, 15, run_id=NEXT)
        assert spans(server) == [(RUN, 9, 10), (NEXT, 13, 14)] and counter(server) is None
        send_batches(9)
        assert spans(server) == [(RUN, 10, 10), (NEXT, 13, 14)]
        ahead[0] += GRACE_SECONDS + 1
        send_batches(16)
        assert counter(server) == 3.0
        send_batches(10, 13)
        assert spans(server) == [(NEXT, 14, 14)] and counter(server) == 3.0


def spans(server: LiveServer) -> list[tuple[str, int, int]]:
    with server.client() as client:
        gaps: list[dict[str, Any]] = client.get(f"/api/v1/queries/{QUERY}").json()["gaps"]
    assert all(gap["query_id"] == QUERY and gap["seen_at"].endswith("Z") for gap in gaps)
    return [(gap["run_id"], gap["from"], gap["to"]) for gap in gaps]


def counter(server: LiveServer) -> float | None:
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith(COUNTER + "{")]
    return float(found[0].rsplit(" ", 1)[1]) if found else None
