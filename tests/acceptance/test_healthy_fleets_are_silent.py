"""The rules as they ship, over hours of healthy life: nobody is woken. And each control shows that they would be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.story import SimulatedDriver, Story, Stream, steadily, story_in
from tests.drivers import BEGIN

HOUR = 3600.0
#: Half as many looks as a server takes by default, and every rule is still evaluated at its own interval or the next.
STEP = 30.0


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with story_in(tmp_path, series_step=STEP) as told:
        yield told


def told(story: Story) -> list[str]:
    """What fired, in words for the one who reads the failure."""
    return [
        f"{v.alert.rule} {dict(v.alert.labels)}: {v.reason}, value {v.alert.value:g}" for v in story.raised()
    ]


def windows(at: float, batch: int) -> dict[str, Any]:
    """State of counts by minute: as many rows are removed as come."""
    rows = {"numRowsTotal": 50_000 + batch % 7, "numRowsUpdated": 10, "numRowsRemoved": 10}
    return {"operatorName": "stateStoreSave", "memoryUsedBytes": 10_000_000, "commitTimeMs": 10, **rows}


@pytest.mark.long
def test_a_trigger_of_ten_minutes_raises_nothing(story: Story) -> None:
    driver = SimulatedDriver(story)
    for name, limit in (("every_ten", None), ("every_ten_limited", 200_000)):
        stream = Stream(name, steadily(100.0), lambda rows: story.random.uniform(40, 150), 600.0, limit)
        stream.state, stream.watermark = windows, lambda at: at - 900
        driver.start(stream)
    story.pass_time(3 * HOUR)
    assert told(story) == []
    assert driver.streams[0].batch >= 16


@pytest.mark.long
def test_an_idle_query_raises_nothing_by_day_or_night(story: Story) -> None:
    driver = SimulatedDriver(story)

    def by_day(at: float) -> float:
        return min(at - BEGIN, 1800.0) * 50 + max(0.0, at - BEGIN - 2 * HOUR) * 50

    idle = Stream("sleeps", by_day, lambda rows: 0.4, 2.0, state=windows, watermark=lambda at: at - 60)
    trickle = Stream("a_row_each_half_hour", lambda at: (at - BEGIN) // 1800, lambda rows: 0.4, 2.0)
    never = Stream("nothing_yet", lambda at: 0.0, lambda rows: 0.4, 2.0)
    for stream in (idle, trickle, never):
        driver.start(stream)
    story.pass_time(2.5 * HOUR)
    assert told(story) == []
    assert idle.batch > 500


@pytest.mark.long
def test_a_restart_by_its_owner_raises_nothing(story: Story) -> None:
    driver = SimulatedDriver(story)
    stream = Stream("deployed", steadily(100.0), lambda rows: 0.5 + rows / 2000, 5.0, state=windows)
    driver.start(stream)
    for _ in range(4):
        story.pass_time(1200)
        driver.stop(stream)
        story.pass_time(40)
        driver.start(stream)
    assert stream.batch > 400
    for _ in range(3):
        story.pass_time(1200)
        driver.end()
        story.pass_time(75)
        driver = SimulatedDriver(story)
        driver.start(stream)
    story.pass_time(1200)
    assert told(story) == []


@pytest.mark.long
def test_a_restart_of_the_server_raises_nothing(story: Story) -> None:
    driver = SimulatedDriver(story)
    steady = Stream(
        "steady", steadily(100.0), lambda rows: 0.5, 2.0, state=windows, watermark=lambda at: at - 60
    )
    slow = Stream("slow", steadily(100.0), lambda rows: 60.0, 600.0)
    driver.start(steady)
    driver.start(slow)
    for away in (20, 120, 900):
        story.pass_time(1500)
        before = story.plane
        away_for(story, away, driver)
        assert story.plane is not before
    story.pass_time(1800)
    assert told(story) == []


def away_for(story: Story, seconds: float, *drivers: SimulatedDriver) -> None:
    """The server is away; drivers live on while nobody listens."""
    for driver in drivers:
        driver.online = False
    story.close()
    story.plane = None  # type: ignore[assignment]
    looked, story._look = story._look, lambda now: None  # type: ignore[method-assign]
    story.pass_time(seconds)
    story._look = looked  # type: ignore[method-assign]
    story.reopen()
    for driver in drivers:
        driver.online = True


@pytest.mark.long
def test_a_job_that_reads_all_there_is_each_hour_raises_nothing(story: Story) -> None:
    driver = SimulatedDriver(story)
    hourly = Stream("hourly", steadily(30.0), lambda rows: 5 + rows / 2000, 0.0, 30_000, "available_now")
    for _ in range(3):
        driver.start(hourly)
        story.pass_time(HOUR)
    assert told(story) == []
    assert not hourly.alive


@pytest.mark.long
def test_a_burst_that_is_worked_off_raises_nothing(story: Story) -> None:
    driver = SimulatedDriver(story)

    def bursts(at: float) -> float:
        calm = (at - BEGIN) * 50
        return calm + sum(6_000.0 for n in range(1, 3) if at - BEGIN > n * HOUR)

    driver.start(Stream("bursts", bursts, lambda rows: 0.2 + rows / 1000, 2.0, 500, state=windows))
    story.pass_time(2.5 * HOUR)
    assert told(story) == []


@pytest.mark.long
def test_short_jobs_and_a_driver_that_is_preempted_now_and_then_raise_nothing(story: Story) -> None:
    often = Stream("often", steadily(30.0), lambda rows: 5.0, 0.0, trigger="available_now")
    steady = Stream("preempted", steadily(100.0), lambda rows: 0.5, 5.0)
    driver = SimulatedDriver(story)
    driver.start(steady)
    for number in range(20):
        job = SimulatedDriver(story, "jobs")
        job.start(often)
        story.pass_time(100)
        job.end()
        if number in (3, 8, 13):
            driver.die()
            story.pass_time(40)
            driver = SimulatedDriver(story)
            driver.start(steady)
        story.pass_time(80)
    assert told(story) == []
    assert often.batch == 18


@pytest.mark.long
def test_event_times_cut_to_the_hour_raise_nothing(story: Story) -> None:
    driver = SimulatedDriver(story)
    by_hour = Stream("by_hour", steadily(100.0), lambda rows: 0.5, 30.0)
    by_hour.watermark = lambda at: at // 3600 * 3600 - 7200
    driver.start(by_hour)
    story.pass_time(3 * HOUR)
    assert told(story) == []


@pytest.mark.long
def test_keys_that_have_all_come_after_an_hour_raise_nothing(story: Story) -> None:
    def warming_up(at: float, batch: int) -> dict[str, Any]:
        rows = round(min(at - BEGIN, HOUR) / HOUR * 100_000)
        return {"operatorName": "stateStoreSave", "numRowsTotal": rows, "numRowsUpdated": 10}

    driver = SimulatedDriver(story)
    driver.start(Stream("by_device", steadily(100.0), lambda rows: 0.5, 30.0, state=warming_up))
    story.pass_time(3.5 * HOUR)
    assert told(story) == []


# -- controls: the same story with a trouble in it -------------------------------------------------


@pytest.mark.long
def test_control_a_query_that_reads_less_than_arrives_is_told(story: Story) -> None:
    driver = SimulatedDriver(story)
    driver.start(Stream("falls_behind", steadily(100.0), lambda rows: 1.5, 2.0, 100))
    story.pass_time(HOUR)
    assert {"LagGrowing", "LagSecondsHigh"} <= story.names()


def test_control_a_driver_that_dies_is_told(story: Story) -> None:
    driver = SimulatedDriver(story)
    driver.start(Stream("orphan", steadily(100.0), lambda rows: 0.5))
    story.pass_time(600)
    driver.die()
    story.pass_time(300)
    assert story.names() == {"AgentLost"}


def test_control_a_dead_driver_is_told_once_although_the_server_starts_again(story: Story) -> None:
    driver = SimulatedDriver(story)
    driver.start(Stream("orphan", steadily(100.0), lambda rows: 0.5, 5.0))
    story.pass_time(300)
    driver.die()
    story.pass_time(300)
    [alert] = story.raised()
    story.plane.alerts.acknowledge(alert.alert.fingerprint, "ann", "token", "")
    away_for(story, 30)
    story.pass_time(400)
    [alert] = story.raised()
    assert (alert.alert.rule, alert.alert.resolved_at) == ("AgentLost", None)
    assert alert.acknowledgement is not None
    SimulatedDriver(story).start(driver.streams[0])
    story.pass_time(300)
    assert story.raised()[0].alert.resolved_at is not None


def test_control_a_query_that_is_gone_is_told_once_although_the_server_was_away(story: Story) -> None:
    driver = SimulatedDriver(story)
    gone, stays = (Stream(name, steadily(100.0), lambda rows: 0.5, 5.0) for name in ("gone", "stays"))
    driver.start(gone)
    driver.start(stays)
    story.pass_time(600)
    gone.alive, gone.began = False, None
    story.pass_time(300)
    assert story.names() == {"QuerySilentlyGone"}
    away_for(story, 900, driver)
    story.pass_time(600)
    [alert] = story.raised()
    assert (alert.alert.rule, alert.alert.resolved_at) == ("QuerySilentlyGone", None)


def test_control_a_driver_that_is_killed_again_and_again_is_told(story: Story) -> None:
    stream = Stream("wants_memory", steadily(100.0), lambda rows: 0.5, 5.0)
    for _ in range(8):
        driver = SimulatedDriver(story)
        driver.start(stream)
        story.pass_time(110)
        driver.die()
        story.pass_time(40)
    assert told(story)
    assert story.names() == {"CrashLoop"}
    assert len(story.raised()) == 1


@pytest.mark.long
def test_control_long_batches_without_a_rate_limit_are_told(story: Story) -> None:
    driver = SimulatedDriver(story)
    driver.start(Stream("takes_all", steadily(100.0), lambda rows: 400.0, 0.0))
    story.pass_time(HOUR)
    assert story.names() == {"LagSecondsHigh"}


@pytest.mark.long
def test_control_state_that_only_grows_is_told(story: Story) -> None:
    def growing(at: float, batch: int) -> dict[str, Any]:
        return {"operatorName": "dedupe", "numRowsTotal": 8_000 + batch * 10, "numRowsUpdated": 10}

    driver = SimulatedDriver(story)
    driver.start(Stream("never_forgets", steadily(10.0), lambda rows: 0.5, 5.0, state=growing))
    story.pass_time(3 * HOUR)
    assert story.names() == {"StateGrowthWithoutEviction"}


@pytest.mark.long
def test_control_a_watermark_that_stands_still_is_told(story: Story) -> None:
    driver = SimulatedDriver(story)
    stuck = Stream(
        "pinned", steadily(10.0), lambda rows: 0.5, 5.0, watermark=lambda at: min(at, BEGIN + 600) - 60
    )
    driver.start(stuck)
    story.pass_time(HOUR)
    assert story.names() == {"WatermarkStuck"}


def test_control_a_query_that_fails_after_each_start_is_told(story: Story) -> None:
    driver = SimulatedDriver(story)
    stream = Stream("loops", steadily(10.0), lambda rows: 0.5, 5.0)
    for _ in range(6):
        driver.start(stream)
        story.pass_time(20)
        driver.stop(stream, "org.apache.spark.SparkException: [CAST_INVALID_INPUT] no", "CAST_INVALID_INPUT")
        story.pass_time(30)
    assert story.names() == {"CrashLoop", "QueryFailed"}


def test_control_an_overrun_is_told(story: Story) -> None:
    driver = SimulatedDriver(story)
    driver.start(Stream("overruns", steadily(10.0), lambda rows: 7.0, 5.0))
    story.pass_time(HOUR)
    assert story.names() == {"Overrun"}
