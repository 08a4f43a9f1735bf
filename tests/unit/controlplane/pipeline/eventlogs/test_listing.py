"""Folders are looked through to the end, over links too, each once; what cannot be is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from controlplane.pipeline.eventlogs.discovery import LogFile
from controlplane.pipeline.eventlogs.listing import list_files


def no_session() -> NoReturn:
    raise AssertionError("what lies on local disks needs no Spark")


def below(*paths: Path) -> tuple[list[str], list[str]]:
    """The files' names, and the reasons of what was refused."""
    files, _, refused = list_files(no_session, [str(path) for path in paths])
    return sorted(file.name for file in files), [item.reason for item in refused]


def test_folders_behind_links_are_looked_into_once_and_circles_end(tmp_path: Path) -> None:
    logs, other = tmp_path / "logs", tmp_path / "other"
    for folder in (logs / "deep", other):
        folder.mkdir(parents=True)
    (logs / "deep/local-1").write_bytes(b"x")
    (other / "local-2").write_bytes(b"x")
    (logs / "a-link").symlink_to(other)
    (logs / "same-again").symlink_to(other)
    (logs / "deep/circle").symlink_to(logs)
    (logs / "_hidden").symlink_to(other)
    assert below(logs) == (["local-1", "local-2"], [])


def test_links_to_nowhere_are_reported_and_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "local-1").write_bytes(b"x")
    (tmp_path / "local-2").symlink_to(tmp_path / "nowhere")
    assert below(tmp_path) == (["local-1"], ["unreadable: No such file or directory"])


def test_names_with_blanks_signs_and_other_letters_are_taken_as_they_are(tmp_path: Path) -> None:
    names = ["a b", "100%20", "ü", "x:y", "[1]"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "local-1").write_bytes(b"x")
        files: list[Any]
        files, _, refused = list_files(no_session, [str(tmp_path / name)])
        assert files == [LogFile(str(tmp_path / name / "local-1"), 1, files[0].modified)]
        assert refused == []
