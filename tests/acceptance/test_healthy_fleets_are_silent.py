"""The shipped rules over hours of simulated healthy operation raise no alert; each control proves that they can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.simulation import SimulatedDriver, SimulatedStream, Simulation, simulation_in, steadily
from tests.drivers import BEGIN

HOUR = 3600.0
#: Twice the default step: every rule is still evaluated at its own interval or the next.
STEP = 30.0


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[Simulation]:
    with simulation_in(tmp_path, series_step=STEP) as opened:
        yield opened


def fired(simulation: Simulation) -> list[str]:
    """The alerts that fired, as text for the assertion message."""
    return [
        f"{v.alert.rule} {dict(v.alert.labels)}: {v.reason}, value {v.alert.value:g}"
        for v in simulation.raised()
    ]


def windows(at: float, batch: int) -> dict[str, Any]:
    """State of counts by minute: as many rows are removed as come."""
    rows = {"numRowsTotal": 50_000 + batch % 7, "numRowsUpdated": 10, "numRowsRemoved": 10}
    return {"operatorName": "stateStoreSave", "memoryUsedBytes": 10_000_000, "commitTimeMs": 10, **rows}


@pytest.mark.soak
def test_a_trigger_of_ten_minutes_raises_nothing(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    for name, limit in (("every_ten", None), ("every_ten_limited", 200_000)):
        stream = SimulatedStream(
            name, steadily(100.0), lambda rows: simulation.random.uniform(40, 150), 600.0, limit
        )
        stream.state, stream.watermark = windows, lambda at: at - 900
        driver.start(stream)
    simulation.pass_time(3 * HOUR)
    assert fired(simulation) == []
    assert driver.streams[0].batch >= 16


@pytest.mark.soak  # in CI, the day of fifty healthy queries has idle topics and nights
def test_an_idle_query_raises_nothing_by_day_or_night(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)

    def by_day(at: float) -> float:
        return min(at - BEGIN, 1800.0) * 50 + max(0.0, at - BEGIN - 2 * HOUR) * 50

    idle = SimulatedStream(
        "sleeps", by_day, lambda rows: 0.4, 2.0, state=windows, watermark=lambda at: at - 60
    )
    trickle = SimulatedStream("a_row_each_half_hour", lambda at: (at - BEGIN) // 1800, lambda rows: 0.4, 2.0)
    never = SimulatedStream("nothing_yet", lambda at: 0.0, lambda rows: 0.4, 2.0)
    for stream in (idle, trickle, never):
        driver.start(stream)
    simulation.pass_time(2.5 * HOUR)
    assert fired(simulation) == []
    assert idle.batch > 500


@pytest.mark.long
def test_a_restart_by_its_owner_raises_nothing(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    stream = SimulatedStream("deployed", steadily(100.0), lambda rows: 0.5 + rows / 2000, 5.0, state=windows)
    driver.start(stream)
    for _ in range(4):
        simulation.pass_time(1200)
        driver.stop(stream)
        simulation.pass_time(40)
        driver.start(stream)
    assert stream.batch > 400
    for _ in range(3):
        simulation.pass_time(1200)
        driver.end()
        simulation.pass_time(75)
        driver = SimulatedDriver(simulation)
        driver.start(stream)
    simulation.pass_time(1200)
    assert fired(simulation) == []


@pytest.mark.long
def test_a_restart_of_the_server_raises_nothing(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    steady = SimulatedStream(
        "steady", steadily(100.0), lambda rows: 0.5, 2.0, state=windows, watermark=lambda at: at - 60
    )
    slow = SimulatedStream("slow", steadily(100.0), lambda rows: 60.0, 600.0)
    driver.start(steady)
    driver.start(slow)
    for away in (20, 120, 900):
        simulation.pass_time(1500)
        before = simulation.plane
        away_for(simulation, away, driver)
        assert simulation.plane is not before
    simulation.pass_time(1800)
    assert fired(simulation) == []


def away_for(simulation: Simulation, seconds: float, *drivers: SimulatedDriver) -> None:
    """The server is down for a while; the drivers go on."""
    for driver in drivers:
        driver.online = False
    simulation.close()
    simulation.plane = None  # type: ignore[assignment]
    original, simulation._tick = simulation._tick, lambda now: None  # type: ignore[method-assign]
    simulation.pass_time(seconds)
    simulation._tick = original  # type: ignore[method-assign]
    simulation.reopen()
    for driver in drivers:
        driver.online = True


@pytest.mark.soak
def test_a_job_that_reads_all_there_is_each_hour_raises_nothing(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    hourly = SimulatedStream(
        "hourly", steadily(30.0), lambda rows: 5 + rows / 2000, 0.0, 30_000, "available_now"
    )
    for _ in range(3):
        driver.start(hourly)
        simulation.pass_time(HOUR)
    assert fired(simulation) == []
    assert not hourly.alive


@pytest.mark.soak
def test_a_burst_that_is_worked_off_raises_nothing(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)

    def bursts(at: float) -> float:
        calm = (at - BEGIN) * 50
        return calm + sum(6_000.0 for n in range(1, 3) if at - BEGIN > n * HOUR)

    driver.start(SimulatedStream("bursts", bursts, lambda rows: 0.2 + rows / 1000, 2.0, 500, state=windows))
    simulation.pass_time(2.5 * HOUR)
    assert fired(simulation) == []


@pytest.mark.soak
def test_short_jobs_and_a_driver_that_is_preempted_now_and_then_raise_nothing(simulation: Simulation) -> None:
    often = SimulatedStream("often", steadily(30.0), lambda rows: 5.0, 0.0, trigger="available_now")
    steady = SimulatedStream("preempted", steadily(100.0), lambda rows: 0.5, 5.0)
    driver = SimulatedDriver(simulation)
    driver.start(steady)
    for number in range(20):
        job = SimulatedDriver(simulation, "jobs")
        job.start(often)
        simulation.pass_time(100)
        job.end()
        if number in (3, 8, 13):
            driver.die()
            simulation.pass_time(40)
            driver = SimulatedDriver(simulation)
            driver.start(steady)
        simulation.pass_time(80)
    assert fired(simulation) == []
    assert often.batch == 18


@pytest.mark.soak
def test_event_times_cut_to_the_hour_raise_nothing(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    by_hour = SimulatedStream("by_hour", steadily(100.0), lambda rows: 0.5, 30.0)
    by_hour.watermark = lambda at: at // 3600 * 3600 - 7200
    driver.start(by_hour)
    simulation.pass_time(3 * HOUR)
    assert fired(simulation) == []


@pytest.mark.soak
def test_keys_that_have_all_come_after_an_hour_raise_nothing(simulation: Simulation) -> None:
    def warming_up(at: float, batch: int) -> dict[str, Any]:
        rows = round(min(at - BEGIN, HOUR) / HOUR * 100_000)
        return {"operatorName": "stateStoreSave", "numRowsTotal": rows, "numRowsUpdated": 10}

    driver = SimulatedDriver(simulation)
    driver.start(SimulatedStream("by_device", steadily(100.0), lambda rows: 0.5, 30.0, state=warming_up))
    simulation.pass_time(3.5 * HOUR)
    assert fired(simulation) == []


# -- controls: the same simulation with a trouble in it -------------------------------------------------


@pytest.mark.soak
def test_control_a_query_that_reads_less_than_arrives_alerts(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    driver.start(SimulatedStream("falls_behind", steadily(100.0), lambda rows: 1.5, 2.0, 100))
    simulation.pass_time(HOUR)
    assert {"LagGrowing", "LagSecondsHigh"} <= simulation.names()


def test_control_a_driver_that_dies_alerts(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    driver.start(SimulatedStream("orphan", steadily(100.0), lambda rows: 0.5))
    simulation.pass_time(600)
    driver.die()
    simulation.pass_time(300)
    assert simulation.names() == {"AgentLost"}


def test_control_one_of_two_drivers_that_dies_alerts_once_for_its_queries(simulation: Simulation) -> None:
    dies, lives = SimulatedDriver(simulation), SimulatedDriver(simulation)
    for number in range(3):
        dies.start(SimulatedStream(f"orphan{number}", steadily(100.0), lambda rows: 0.5, 5.0))
    lives.start(SimulatedStream("lives", steadily(100.0), lambda rows: 0.5, 5.0))
    simulation.pass_time(400)
    dies.die()
    simulation.pass_time(300)
    [alert] = simulation.raised()
    assert (alert.alert.rule, alert.alert.value) == ("DriverLost", 3)


def test_control_a_dead_driver_alerts_once_although_the_server_restarts(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    driver.start(SimulatedStream("orphan", steadily(100.0), lambda rows: 0.5, 5.0))
    simulation.pass_time(300)
    driver.die()
    simulation.pass_time(300)
    [alert] = simulation.raised()
    simulation.plane.alerts.acknowledge(alert.alert.fingerprint, "ann", "token", "")
    away_for(simulation, 30)
    simulation.pass_time(400)
    [alert] = simulation.raised()
    assert (alert.alert.rule, alert.alert.resolved_at) == ("AgentLost", None)
    assert alert.acknowledgement is not None
    SimulatedDriver(simulation).start(driver.streams[0])
    simulation.pass_time(300)
    assert simulation.raised()[0].alert.resolved_at is not None


def test_control_a_query_that_disappears_alerts_once_although_the_server_was_down(
    simulation: Simulation,
) -> None:
    driver = SimulatedDriver(simulation)
    gone, stays = (
        SimulatedStream(name, steadily(100.0), lambda rows: 0.5, 5.0) for name in ("gone", "stays")
    )
    driver.start(gone)
    driver.start(stays)
    simulation.pass_time(600)
    gone.alive, gone.began = False, None
    simulation.pass_time(300)
    assert simulation.names() == {"QuerySilentlyGone"}
    away_for(simulation, 900, driver)
    simulation.pass_time(600)
    [alert] = simulation.raised()
    assert (alert.alert.rule, alert.alert.resolved_at) == ("QuerySilentlyGone", None)


def test_control_a_driver_that_is_killed_again_and_again_alerts(simulation: Simulation) -> None:
    stream = SimulatedStream("wants_memory", steadily(100.0), lambda rows: 0.5, 5.0)
    for _ in range(8):
        driver = SimulatedDriver(simulation)
        driver.start(stream)
        simulation.pass_time(110)
        driver.die()
        simulation.pass_time(40)
    assert fired(simulation)
    assert simulation.names() == {"CrashLoop"}
    assert len(simulation.raised()) == 1


@pytest.mark.soak
def test_control_long_batches_without_a_rate_limit_alert(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    driver.start(SimulatedStream("takes_all", steadily(100.0), lambda rows: 400.0, 0.0))
    simulation.pass_time(HOUR)
    assert simulation.names() == {"LagSecondsHigh"}


@pytest.mark.soak
def test_control_state_that_only_grows_alerts(simulation: Simulation) -> None:
    def growing(at: float, batch: int) -> dict[str, Any]:
        return {"operatorName": "dedupe", "numRowsTotal": 8_000 + batch * 10, "numRowsUpdated": 10}

    driver = SimulatedDriver(simulation)
    driver.start(SimulatedStream("never_forgets", steadily(10.0), lambda rows: 0.5, 5.0, state=growing))
    simulation.pass_time(3 * HOUR)
    assert simulation.names() == {"StateGrowthWithoutEviction"}


@pytest.mark.soak
def test_control_a_watermark_that_stands_still_alerts(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    stuck = SimulatedStream(
        "pinned", steadily(10.0), lambda rows: 0.5, 5.0, watermark=lambda at: min(at, BEGIN + 600) - 60
    )
    driver.start(stuck)
    simulation.pass_time(HOUR)
    assert simulation.names() == {"WatermarkStuck"}


def test_control_a_query_that_fails_after_each_start_alerts(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    stream = SimulatedStream("loops", steadily(10.0), lambda rows: 0.5, 5.0)
    for _ in range(6):
        driver.start(stream)
        simulation.pass_time(20)
        driver.stop(stream, "org.apache.spark.SparkException: [CAST_INVALID_INPUT] no", "CAST_INVALID_INPUT")
        simulation.pass_time(30)
    assert simulation.names() == {"CrashLoop", "Flapping", "QueryFailed"}


@pytest.mark.soak
def test_control_an_overrun_alerts(simulation: Simulation) -> None:
    driver = SimulatedDriver(simulation)
    driver.start(SimulatedStream("overruns", steadily(10.0), lambda rows: 7.0, 5.0))
    simulation.pass_time(HOUR)
    assert simulation.names() == {"Overrun"}
