"""The directory of the spools, and the limit of a spool."""

import tempfile

import pytest

from listeners.delivery.spool import Spool
from listeners.delivery.spool_directory import spool_limit, spool_root


@pytest.mark.parametrize("setting", [None, "", "lots", "-5", "12", "1e9"])
def test_invalid_spool_limit_leaves_the_default(setting):
    assert spool_limit(setting) == 256 * 1024 * 1024


def test_spool_limit_can_be_set():
    assert spool_limit("1048576") == 1048576


def test_events_stay_in_memory_without_any_spool_directory(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    root = spool_root(None)
    assert "CONTROLPLANE_SPOOL_DIR" in caplog.text
    spool = Spool(root / "agent", {"app": "orders"})
    spool.append([(1, b"{}")])
    assert spool.peek(10, 1000) == [(1, b"{}")] and spool.trouble


def test_events_stay_in_memory_without_a_temporary_directory(monkeypatch):
    def none():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert Spool(spool_root(None) / "agent", {"app": "orders"}).trouble
