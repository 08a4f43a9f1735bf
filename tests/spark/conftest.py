"""Fixtures of the Spark tests: a `Deployment` and input files for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.deployment import Deployment, Feed


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path)
    yield made
    made.close()


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    made = Feed(tmp_path / "base" / "in")
    made.add()
    return made
