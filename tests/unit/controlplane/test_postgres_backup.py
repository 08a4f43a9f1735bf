"""A restore is refused beside a server; `test_store_backup` runs backups of both databases."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from controlplane.errors import SettingsError, StoreUnavailable
from controlplane.postgres_backup import dump, restore
from controlplane.store.engine import open_engine
from controlplane.store.shared.lease import application_name
from tests.stores import postgres_harness


def test_a_restore_is_refused_while_a_server_is_connected(postgres: str, tmp_path: Path) -> None:
    with postgres_harness(postgres) as harness:
        dump(harness.url, tmp_path / "copy")
        server = open_engine(harness.url, application_name("server-1"))
        with server.connect(), pytest.raises(SettingsError, match="'controlplane server-1' is connected"):
            restore(harness.url, tmp_path / "copy")
        server.dispose()
        restore(harness.url, tmp_path / "copy")


def test_a_database_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    url = sa.make_url("postgresql://ann:s3cret@/db").update_query_dict({"host": str(tmp_path)})
    with pytest.raises(StoreUnavailable, match=r"pg_dump failed: .*connection to server") as refused:
        dump(url.render_as_string(hide_password=False), tmp_path / "copy")
    assert "s3cret" not in str(refused.value)
