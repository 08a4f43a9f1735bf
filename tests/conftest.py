"""Fixtures of all suites: one Spark session and one PostgreSQL a worker, a recording server; the order of files."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from controlplane.runtime.java import java_environment
from tests import class_archive, quick_collection
from tests.paths import ROOT
from tests.recording_server import RecordingServer, recording_server
from tests.served_s3 import ServedS3, no_failure, served_s3
from tests.stores import postgres_server

# Examples of random data may take as long as they do: how fast a loaded machine is, is no property of the product.
settings.register_profile("without a deadline", deadline=None)
settings.load_profile("without a deadline")

os.environ.setdefault("SPARK_SUBMIT_OPTS", class_archive.jvm_options())
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", class_archive.jvm_options())
os.environ.setdefault("SPARK_LAUNCHER_OPTS", class_archive.QUICK_JVM)

# Workers of Python data sources and foreachBatch connect back only if they run the driver's interpreter.
os.environ.update(java_environment() or {})
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def pytest_configure(config: pytest.Config) -> None:
    quick_collection.begin(config)
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # pytest-xdist would start the files with the most tests first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under pytest-xdist, start the long files first: workers then end at about the same time."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        counts = Counter(item.path for item in items)
        items.sort(key=lambda item: (_stage(item), -counts[item.path], str(item.path)))


def pytest_collection_finish() -> None:
    quick_collection.end()


def _stage(item: pytest.Item) -> int:
    """0 for files that start Spark or a browser, 1 for those that start servers, 2 for the rest."""
    folder = item.path.relative_to(ROOT / "tests").parts[0]
    return {"spark": 0, "ui": 0, "acceptance": 1, "contract": 1}.get(folder, 2)


@pytest.fixture(scope="session")
def _s3() -> Iterator[ServedS3]:
    with served_s3() as s3:
        yield s3


@pytest.fixture
def s3(_s3: ServedS3) -> Iterator[ServedS3]:
    """S3 over HTTP, the same server for all tests of a worker; without requests and failures of the last test."""
    _s3.requests.clear()
    yield _s3
    _s3.fails = no_failure


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The only session of a worker: local, two threads, two shuffle partitions, no UI."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.memory", "1g")
        # A process has one maintenance task: the first stateful query sets its interval, for all tests.
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "300ms")
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
