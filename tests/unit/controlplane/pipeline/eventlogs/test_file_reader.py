"""A file of a log is read through fsspec where it knows the place, and what Hadoop's shell states is reported in a line."""

from __future__ import annotations

import stat
from pathlib import Path

import fsspec
import pytest

from controlplane.pipeline.eventlogs import file_reader
from controlplane.pipeline.eventlogs.discovery import LogFile
from controlplane.pipeline.eventlogs.file_reader import HadoopShell, read_chunks
from tests import eventlogs

CONTENT = eventlogs.RECORDED.read_bytes()


@pytest.mark.parametrize("start", [0, 1000])
def test_a_local_file_and_one_of_fsspec_give_the_same_bytes(start: int) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/read/local-1", CONTENT)
    try:
        for path in (str(eventlogs.RECORDED), "memory://read/local-1"):
            assert b"".join(read_chunks(LogFile(path, len(CONTENT), 1.0), "", None, start)) == CONTENT[start:]
    finally:
        memory.rm("/read", recursive=True)


def test_a_missing_file_is_an_operating_system_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_chunks(LogFile(str(tmp_path / "gone"), 1, 1.0), "", None))


def test_without_sparks_jars_the_error_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="set SPARK_HOME on the executors"):
        list(read_chunks(LogFile("hdfs://h/l", 1, 1.0), "", HadoopShell(str(tmp_path))))


def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> HadoopShell:
    """A stand-in for java, which is asked for the shell as the real one would be."""
    java = tmp_path / "java/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    jars = tmp_path / "spark/jars"
    jars.mkdir(parents=True)
    (jars / "hadoop.jar").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return HadoopShell(str(tmp_path / "spark"), {"fs.secret": "a<b&c"})


def test_keys_are_handed_to_the_shell_in_a_private_file_and_not_on_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'echo "$@"; folder="${3%%:*}"; stat -c %a "$folder/core-site.xml"; cat "$folder/core-site.xml"'
    hadoop = shell(tmp_path, monkeypatch, script)
    printed = b"".join(read_chunks(LogFile("hdfs://h/l", 1, 1.0), "", hadoop)).decode().splitlines()
    assert printed[0].endswith("org.apache.hadoop.fs.FsShell -cat hdfs://h/l")
    assert "a<b" not in printed[0]
    assert printed[1] == "600"
    assert "<name>fs.secret</name><value>a&lt;b&amp;c</value>" in printed[2]


def test_what_the_shell_complains_of_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo some bytes; echo 'WARN nothing' >&2; echo 'cat: No FileSystem for scheme' >&2; exit 1"
    hadoop = shell(tmp_path, monkeypatch, script)
    with pytest.raises(OSError, match=r"^Hadoop cannot read the file: cat: No FileSystem for scheme$"):
        list(read_chunks(LogFile("odd://h/l", 1, 1.0), "", hadoop))


@pytest.mark.parametrize(
    ("printed", "reported"),
    [
        ("", "no reason given"),
        ("a\nException in thread main: no\n\tat x.y.Exception(z)\n", "Exception in thread main: no"),
        ("one\ntwo\n", "two"),
    ],
)
def test_the_relevant_line_of_a_long_output_is_chosen(printed: str, reported: str) -> None:
    assert file_reader._error_line(printed) == reported
