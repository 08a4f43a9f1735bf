"""Since when the silence of a driver counts."""

from __future__ import annotations

import pytest

from controlplane.health.listening import MAX_PAUSE_SECONDS, ListeningTime


@pytest.mark.parametrize("step", [130.0, -600.0], ids=["paused, or set forward", "set back"])
def test_silence_counts_anew_after_a_pause_and_after_a_step_of_the_clock(step: float) -> None:
    wall = [1_000.0]
    listening = ListeningTime(since=10.0, wall=lambda: wall[0])
    wall[0] += MAX_PAUSE_SECONDS
    assert listening.since(wall[0]) == 10.0
    wall[0] += step
    assert listening.since(wall[0]) == wall[0]
    wall[0] += 5
    assert listening.since(wall[0]) == wall[0] - 5


def test_a_server_that_takes_over_counts_from_then() -> None:
    wall = [1_000.0]
    listening = ListeningTime(since=10.0, wall=lambda: wall[0])
    wall[0] = 5_000.0  # nobody asks a standby
    listening.begin(4_990.0)
    assert listening.since(5_000.0) == 4_990.0
