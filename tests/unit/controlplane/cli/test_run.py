"""`controlplane run`: what the program is given, where its events go to a folder instead of a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from controlplane.cli import run as module
from controlplane.cli.main import run


class Became(Exception):
    pass


def environment_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, str]:
    """What `controlplane run` hands over when it becomes the program."""
    seen: dict[str, str] = {}

    def become(path: str, command: list[str], environment: dict[str, Any]) -> None:
        seen.update(environment)
        raise Became

    monkeypatch.setattr(module.os, "execve", become)
    with pytest.raises(Became):
        run(["run", *arguments])
    return seen


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text("")
    return str(tmp_path / "program.py")


@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_program_may_leave_its_events_in_a_folder(
    by: str, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = "file:///mnt/landing"
    monkeypatch.setenv("CONTROLPLANE_URL", zone if by == "environment" else "http://server:8420")
    options = ["--server", zone] if by == "option" else []
    assert environment_of(monkeypatch, *options, program)["CONTROLPLANE_URL"] == zone


def test_a_server_that_is_named_goes_before_a_folder(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTROLPLANE_URL", "file:///mnt/landing")
    reported = environment_of(monkeypatch, "--server", "http://server:8420", program)
    assert reported["CONTROLPLANE_URL"] == "http://server:8420"
    assert os.environ["CONTROLPLANE_URL"] == "file:///mnt/landing"
