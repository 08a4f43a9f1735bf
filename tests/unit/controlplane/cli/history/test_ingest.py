"""`controlplane history ingest`: what is said of a call that cannot work; nothing of Spark is started for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.cli.main import run


@pytest.fixture
def zone(tmp_path: Path) -> str:
    (tmp_path / "zone").mkdir()
    return str(tmp_path / "zone")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["ZONE", "--checkpoint", "c"], "--lake URL"),
        (["ZONE", "--lake", "l"], "--checkpoint FOLDER"),
        (["--lake", "l", "--checkpoint", "c"], "no landing zone given"),
        (["/no/such/zone", "--lake", "l", "--checkpoint", "c"], "create it first"),
        (["ZONE", "--lake", "l", "--checkpoint", "c", "--format", "kafka"], "takes no folder"),
        (["ZONE", "--lake", "l", "--checkpoint", "c", "--server", "file:///x"], "--server must be"),
        (["ZONE", "--lake", "l", "--checkpoint", "c", "--option", "x"], "NAME=VALUE"),
        (["ZONE", "--lake", "l", "--checkpoint", "c", "--dedup-window", "1s"], "at least 1m"),
        (["ZONE", "--lake", "l", "--checkpoint", "c", "--trigger", "often"], "not a valid duration"),
        (["ZONE", "--lake", "l", "--checkpoint", "c", "--max-files", "0"], "max-files"),
    ],
    ids=[
        "no lake", "no checkpoint", "no zone", "zone away", "kafka and a zone",
        "server", "option", "window", "trigger", "files",
    ],
)  # fmt: skip
def test_a_usage_error_is_one_line_that_names_what_to_change(
    arguments: list[str],
    printed: str,
    zone: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CONTROLPLANE_LAKE", raising=False)
    code = run(["history", "ingest", *(zone if argument == "ZONE" else argument for argument in arguments)])
    reported = capsys.readouterr().err
    assert code == 2 and printed in reported and len(reported.strip().splitlines()) == 1
