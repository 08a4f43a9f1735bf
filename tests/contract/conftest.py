"""The store in all its forms: what holds for one holds for the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores import StoreHarness, open_harness, postgres_database, postgres_server, sqlite_harness


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    if request.param == "sqlite":
        with sqlite_harness(tmp_path) as opened:
            yield opened
        return
    with postgres_database(request.getfixturevalue("postgres")) as url, open_harness(url) as opened:
        yield opened
