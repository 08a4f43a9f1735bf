"""The store in all its forms: what holds for one holds for the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores import StoreHarness, postgres_harness, sqlite_harness


@pytest.fixture(params=["sqlite", "postgres"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    if request.param == "sqlite":
        with sqlite_harness(tmp_path) as opened:
            yield opened
        return
    with postgres_harness(request.getfixturevalue("postgres")) as opened:
        yield opened
