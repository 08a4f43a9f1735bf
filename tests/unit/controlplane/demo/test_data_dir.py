"""The demonstration wipes its own folder and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.console.errors import DataDirInUse
from controlplane.demo import data_dir


def test_the_folder_of_the_last_demonstration_is_made_anew(tmp_path: Path) -> None:
    left = data_dir.fresh(tmp_path) / "checkpoints" / "old"
    left.mkdir()
    assert data_dir.fresh(tmp_path) == tmp_path / "demo"
    assert not left.exists()
    assert (tmp_path / "demo/input/orders").is_dir()


def test_a_folder_of_another_owner_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataDirInUse, match="was not made by the demo"):
        data_dir.fresh(tmp_path)
    assert (tmp_path / "demo" / "thesis.txt").exists()


def test_two_demonstrations_do_not_share_a_data_directory(tmp_path: Path) -> None:
    with data_dir.lock(tmp_path), pytest.raises(DataDirInUse, match="another demo is running"):
        data_dir.lock(tmp_path)
    data_dir.lock(tmp_path).close()
