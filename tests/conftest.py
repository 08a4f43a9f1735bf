"""Fixtures for all suites: one Spark session for the whole run, a stand-in server for the agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from controlplane.runtime.java import java_environment
from tests.recording_server import RecordingServer, recording_server
from tests.stores import postgres_server

# Examples of random data may take as long as they do: how fast a loaded machine is, is no property of the product.
settings.register_profile("without a deadline", deadline=None)
settings.load_profile("without a deadline")

# Workers of Python data sources and foreachBatch connect back only if they run the driver's interpreter.
os.environ.update(java_environment() or {})
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one session of the test run: local, two threads, two shuffle partitions, no UI."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server; one a worker."""
    with postgres_server() as url:
        yield url


@pytest.fixture
def recorder() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


@pytest.fixture
def attached(
    spark: Any, recorder: RecordingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The agent on the shared session, speaking to the recorder; detached afterwards, queries stopped."""
    from listeners import attach

    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path / "spool"))
    attachment = attach.attach(spark, server=recorder.url, app="tests", token="t")
    assert attachment
    yield attachment
    for query in spark.streams.active:
        query.stop()
    attachment.detach()
