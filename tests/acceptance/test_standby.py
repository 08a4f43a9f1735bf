"""The standby of two servers on one PostgreSQL: what it answers, what it refuses, and a planned hand-over to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from controlplane.app import build
from controlplane.errors import SettingsError
from controlplane.model import QueryView
from controlplane.settings import Settings
from controlplane.store import engine
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedQuery
from tests.stores import postgres_database

WAIT_SECONDS = 60.0
UPGRADE = '''"""A migration of the next release."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    op.add_column("audit", sa.Column("added", sa.Text()))
'''


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    with postgres_database(postgres) as url:
        yield url


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def start(stack: ExitStack, directory: Path, name: str, database: str) -> tuple[LiveServer, ExitStack]:
    """A server, and what ends it in an orderly way."""
    ends = stack.enter_context(ExitStack())
    server = ends.enter_context(
        live_server(directory / name, database_url=database, advertise_url=f"http://{name}:8420")
    )
    return server, ends


def is_active(server: LiveServer) -> bool:
    return httpx.get(f"{server.url}/readyz").status_code == 200


def leased(server: LiveServer, query_id: str) -> QueryView | None:
    """The query once the server has noted who holds its checkpoint."""
    view = server.plane.window.view(query_id)
    return view if view is not None and view.supervised.lease is not None else None


def test_the_standby_answers_reads_refuses_writes_and_takes_over_what_the_active_server_releases(
    tmp_path: Path, database: str, stack: ExitStack
) -> None:
    active, ends = start(stack, tmp_path, "one", database)
    token = active.admin_token
    driver, query = active.agent(), SimulatedQuery("orders")
    driver.begin()
    driver.start(query)
    standby, _ = start(stack, tmp_path, "two", database)
    with active.client() as client:
        body = {"matchers": ['app="orders"'], "duration_seconds": 3600, "comment": "maintenance"}
        silence = client.post("/api/v1/silences", json=body)
        assert silence.is_success, silence.text
    driver.send(driver.progress(query), driver.progress(query))

    with standby.client(token) as client:

        def followed() -> bool:
            view = standby.plane.window.view(query.query_id)
            known = client.get("/api/v1/silences").json().get("silences", ())
            return view is not None and len(view.progress) == 2 and len(known) == 1

        assert eventually(followed, WAIT_SECONDS)
        other = eventually(lambda: leased(active, query.query_id), WAIT_SECONDS)
        own = standby.plane.window.view(query.query_id)
        assert (
            own is not None and replace(own, supervised=other.supervised) == other
        )  # leases are read at a take-over
        assert [q["name"] for q in client.get("/api/v1/queries").json()["queries"]] == ["orders"]
        about = client.get("/api/v1/server").json()
        assert (about["role"], about["lease"], about["active"]) == ("standby", None, "http://one:8420")
        assert about["queries"] == 1
        for answer in (
            client.post("/api/v1/silences", json=body),
            client.post(f"/api/v1/queries/{query.query_id}/actions", json={"action": "stop"}),
        ):
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert answer.json()["error"]["detail"] == {"active": "http://one:8420"}
        assert httpx.get(f"{standby.url}/healthz").status_code == 200
        refused = httpx.get(f"{standby.url}/readyz")
        assert refused.status_code == 503
        assert "http://one:8420" in refused.text
        with standby.client(active.agent_token) as agent:
            path = f"/api/v1/agents/{driver.agent}/commands?wait=1"
            assert agent.get(path).status_code == agent.post("/api/v1/events").status_code == 503

        driver.close()
        ends.close()  # the active server ends in an orderly way
        assert eventually(lambda: is_active(standby), WAIT_SECONDS)
        about = client.get("/api/v1/server").json()
        assert (about["role"], about["lease"], about["active"]) == ("active", 2, None)
        assert standby.plane.window.view(query.query_id) == other
        assert len(client.get("/api/v1/silences").json()["silences"]) == 1
        assert client.post("/api/v1/silences", json=body).is_success


def test_a_standby_of_a_newer_release_migrates_when_it_becomes_active(
    tmp_path: Path, database: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, ends = start(stack, tmp_path, "old", database)
    token = old.admin_token
    with old.plane.reading() as connection:
        head = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    migrations = tmp_path / "migrations"
    shutil.copytree(engine.MIGRATIONS, migrations)
    (migrations / "versions/9999_next.py").write_text(UPGRADE.format(head=head))
    with monkeypatch.context() as patch:
        patch.setattr(engine, "MIGRATIONS", migrations)
        new, _ = start(stack, tmp_path, "new", database)
        with new.client(token) as client:
            assert client.get("/api/v1/server").json()["role"] == "standby"
            # It cannot read the old schema, so it has no window to answer from.
            assert client.get("/api/v1/queries").status_code == 503
        assert not columns(old, "added")
        with old.client() as client:
            assert client.get("/api/v1/queries").is_success
        ends.close()
        assert eventually(lambda: is_active(new), WAIT_SECONDS)
        assert columns(new, "added")
    with pytest.raises(SettingsError, match="newer release"):
        build(Settings(data_dir=tmp_path / "again", database_url=database))


def columns(server: LiveServer, name: str) -> bool:
    return name in {column["name"] for column in sa.inspect(server.plane.engine).get_columns("audit")}


def test_a_second_server_on_an_sqlite_store_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    first = build(Settings(data_dir=tmp_path / "one", database_url=url))
    try:
        with pytest.raises(SettingsError, match=r"another server uses the store .*shared\.db"):
            build(Settings(data_dir=tmp_path / "two", database_url=url))
    finally:
        first.close()
    build(Settings(data_dir=tmp_path / "two", database_url=url)).close()
