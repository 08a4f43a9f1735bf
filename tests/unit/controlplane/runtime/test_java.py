"""Finding Java, and the wrapper around a runtime that lacks a module."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from controlplane.runtime import java


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.9" 2023-10-17', 17),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_version_is_read_from_what_java_writes(text: str, major: int | None) -> None:
    assert java.major_version(text) == major


def make_java(home: Path, version: str) -> Path:
    """A `java` that prints this version and, asked for anything else, its arguments one a line."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    answer = f"""echo 'openjdk version "{version}"' >&2"""
    program.write_text(f'#!/bin/sh\nif [ "$1" = -version ]; then {answer}; else printf "%s\\n" "$@"; fi\n')
    program.chmod(0o755)
    return home


@pytest.fixture
def no_wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "wrapper"
    monkeypatch.setattr(java, "wrapped_home", lambda: home)
    return home


def test_java_home_wins_where_it_is_new_enough(tmp_path: Path, no_wrapper: Path) -> None:
    home = make_java(tmp_path / "home", "21.0.1")
    assert java.java_environment({"JAVA_HOME": str(home), "PATH": ""}) == {"JAVA_HOME": str(home)}


def test_java_on_the_path_needs_nothing_added(tmp_path: Path, no_wrapper: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.1")
    assert java.java_environment({"PATH": str(home / "bin")}) == {}


def test_an_old_java_home_gives_way_to_the_java_on_the_path(tmp_path: Path, no_wrapper: Path) -> None:
    old, new = make_java(tmp_path / "old", "1.8.0_402"), make_java(tmp_path / "new", "17.0.1")
    found = java.java_environment({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert found == {"JAVA_HOME": str(new)}


def test_without_any_java_the_one_that_set_up_made_is_used(tmp_path: Path, no_wrapper: Path) -> None:
    assert java.java_environment({"PATH": str(tmp_path)}) is None
    java.make_wrapper(make_java(tmp_path / "runtime", "17.0.9"), no_wrapper)
    assert java.java_environment({"PATH": str(tmp_path)}) == {"JAVA_HOME": str(no_wrapper)}


def test_the_wrapper_drops_the_missing_module_and_passes_the_rest_unchanged(tmp_path: Path) -> None:
    home = java.make_wrapper(make_java(tmp_path / "a runtime", "17.0.9"), tmp_path / "home")
    given = ["-Xmx1g", java.MISSING_MODULE, "-Dname=two words", "", "Main"]
    answer = subprocess.run([home / "bin/java", *given], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["-Xmx1g", "-Dname=two words", "", "Main"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], "name the command"), (["no-such-command"], "no-such-command cannot be run")],
)
def test_a_command_that_cannot_be_run_is_named(arguments: list[str], expected: str) -> None:
    with pytest.raises(SystemExit, match=expected):
        java.main(arguments)
