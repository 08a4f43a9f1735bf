"""The store in all its forms: what holds for one holds for the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores import House, house_at, postgres_database, postgres_server, sqlite_house


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    if request.param == "sqlite":
        with sqlite_house(tmp_path) as opened:
            yield opened
        return
    with postgres_database(request.getfixturevalue("postgres")) as url, house_at(url) as opened:
        yield opened
