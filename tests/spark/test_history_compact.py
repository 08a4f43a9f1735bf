"""`history compact` with real Spark: through the command line, twice, and with a file that is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controlplane.cli.history.compact import compact
from controlplane.lake.lake import Lake
from tests.unit.controlplane.lake.lakes import DAY, by_glob, by_manifest, put, reports

pytestmark = pytest.mark.spark


def filled(root: Path) -> Lake:
    from datetime import timedelta

    lake = Lake.open(str(root), create=True)
    for number in range(20):
        rows = reports([number], run=f"run-{number % 3}", day=DAY + timedelta(days=number % 2))
        put(lake, "ingest", f"q-{number:04}", rows)
    return lake


def run(root: Path) -> tuple[int, dict[str, Any], str]:
    done = CliRunner().invoke(compact, ["--lake", str(root), "--json"], standalone_mode=False)
    assert done.exception is None, done.output
    return done.return_value, json.loads(done.stdout), done.stderr


def test_small_files_become_one_a_day_and_a_second_call_finds_nothing_to_do(
    spark: Any, tmp_path: Path
) -> None:
    lake = filled(tmp_path)
    code, account, reported = run(tmp_path)
    assert code == 0 and "2 of 2 tables and days" in reported
    assert (account["files_before"], account["files_after"], account["consolidated"]) == (20, 2, 22)
    assert by_manifest(Lake.open(str(tmp_path))) == by_glob(tmp_path) == list(range(20))
    assert lake.folder.list_names("_journal") == lake.folder.list_names("_staging") == []
    # What the ingest has to know is in the one file: its newest batch, and the two merges.
    assert len(Lake.open(str(tmp_path)).manifest().commits) == 3
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    code, account, _ = run(tmp_path)
    assert (code, account["groups"]) == (0, 0)
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}


def test_a_damaged_file_is_named_and_the_other_days_are_compacted(spark: Any, tmp_path: Path) -> None:
    lake = filled(tmp_path)
    damaged = lake.manifest().parts("progress")[0]
    Path(lake.folder.absolute(damaged.path)).write_bytes(b"")
    code, account, reported = run(tmp_path)
    assert (code, account["groups"]) == (1, 1)
    assert f"not compacted: progress of {DAY.date()}" in reported and damaged.path in reported
    assert len(lake.manifest().parts("progress")) == 11
