"""The command line of the import: what is asked wrongly is said in one line, and long work states how far it is."""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from controlplane.cli import main
from controlplane.cli.history import commands
from controlplane.cli.history.import_logs import ProgressLine, format_progress, parse_when
from controlplane.console.errors import UsageProblem
from controlplane.errors import ControlPlaneError
from controlplane.pipeline.eventlogs.import_job import ImportProgress

NOW = 1_795_188_700.0


def test_the_group_names_all_commands_even_where_one_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(commands.COMMANDS, "compact", "controlplane.cli.no_such_file:compact")
    assert main.run(["history", "--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {name}" in printed for name in commands.COMMANDS)
    assert main.run(["history", "compact", "--whatever", "x"]) == 2
    assert capsys.readouterr().err == (
        "controlplane: history compact needs controlplane.cli.no_such_file: "
        "pip install 'spark-controlplane[pipeline,server]'\n"
    )


@pytest.mark.parametrize("name", sorted(commands.COMMANDS))
def test_every_command_of_the_table_is_there(name: str) -> None:
    module, _, command = commands.COMMANDS[name].partition(":")
    assert isinstance(getattr(importlib.import_module(module), command), click.Command)


def test_help_needs_no_spark() -> None:
    code = "import sys, controlplane.cli.history.import_logs; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_that_a_cluster_failed_is_no_mistake_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise ControlPlaneError("no master", code="spark")

    group = commands.HistoryGroup(commands={})
    monkeypatch.setattr(group, "get_command", lambda *_: click.Command("import", callback=fails))
    with pytest.raises(click.ClickException, match="no master") as raised:
        group.main(["import"], standalone_mode=False)
    assert raised.value.exit_code == 1


def test_without_a_lake_the_error_names_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("CONTROLPLANE_LAKE", raising=False)
    assert main.run(["history", "import", str(tmp_path)]) == 2
    assert "no lake given: set --lake URL or CONTROLPLANE_LAKE" in capsys.readouterr().err


def test_a_path_where_nothing_is_ends_with_two_and_starts_no_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    paths = [str(tmp_path / "none"), str(tmp_path / "nor-*")]
    assert main.run(["history", "import", *paths, "--lake", str(tmp_path / "lake")]) == 2
    printed = capsys.readouterr().err
    assert (
        printed == f"controlplane: {paths[0]}: no such file or folder; {paths[1]}: no such file or folder\n"
    )


def test_a_folder_that_is_no_lake_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "lake.json").write_text('{"format": "another"}')
    assert main.run(["history", "import", str(tmp_path), "--lake", str(tmp_path)]) == 2
    assert "is not the metadata file of a lake" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", NOW - 30 * 86400), ("2026-01-31", 1769817600.0), ("1h30m", NOW - 5400)]
)
def test_since_is_a_day_or_so_long_ago(text: str, seconds: float) -> None:
    assert parse_when(text, NOW) == seconds


def test_since_that_is_neither_is_a_mistake() -> None:
    with pytest.raises(
        UsageProblem, match="--since soon: give a day such as 2026-01-31, or a duration such as 30d"
    ):
        parse_when("soon", NOW)


HALF = ImportProgress(3, 10, 500_000_000, 1_000_000_000, 1200, 10.0)


def test_progress_has_the_share_done_the_rate_and_the_time_left() -> None:
    assert format_progress(HALF) == "logs 3/10, 500.0 MB of 1.0 GB, 1200 events, 50.0 MB/s, 10 s left"
    begun = ImportProgress(0, 10, 0, 1_000_000_000, 0, 0.0)
    assert format_progress(begun) == "logs 0/10, 0 B of 1.0 GB, 0 events, 0 B/s, time left unknown"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "printed"), [(Terminal(), "\rlogs 3/10"), (io.StringIO(), "logs 3/10")])
def test_a_terminal_gets_one_line_rewritten_and_a_file_lines(stream: Any, printed: str) -> None:
    shown = ProgressLine(stream)
    shown(HALF)
    shown(HALF)  # too soon to be said again
    shown.end()
    assert stream.getvalue() == f"{printed}, 500.0 MB of 1.0 GB, 1200 events, 50.0 MB/s, 10 s left\n"
