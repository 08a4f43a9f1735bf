"""Open a file of an event log on any file system and yield decoded chunks. Runs on executors; called by
`split_reader`.

Where fsspec does not support the file system, Hadoop's shell reads the file and its output is streamed: only
Spark's own jars are needed, and the file is never in memory as a whole.
"""

from __future__ import annotations

import contextlib
import glob
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import fsspec

from controlplane.pipeline.eventlogs.codecs import CHUNK_BYTES, CODECS
from controlplane.pipeline.eventlogs.discovery import LogFile
from controlplane.runtime.java import java_environment


@dataclass(frozen=True)
class HadoopShell:
    """How to run Hadoop's shell: Spark's home, and the session's file system settings."""

    home: str
    settings: Mapping[str, str] = field(default_factory=dict)


def read_chunks(
    file: LogFile,
    codec: str,
    hadoop: HadoopShell | None,
    start: int = 0,
    on_read: Callable[[int], None] = lambda size: None,
) -> Iterator[bytes]:
    """Decoded bytes from `start` on, which must be 0 for compressed files. OSError or CorruptStream.

    `hadoop`: the shell to read with, None to use fsspec. `on_read` is called with the size of each read of the file.
    """
    with _opened(file, hadoop) as opened:
        if start:
            opened.seek(start)
        yield from CODECS[codec](_CountedFile(opened, on_read))


class _CountedFile:
    """A file that reports the size of each read."""

    def __init__(self, file: Any, on_read: Callable[[int], None]):
        self._file, self._on_read = file, on_read

    def read(self, size: int = -1) -> bytes:
        content: bytes = self._file.read(size)
        self._on_read(len(content))
        return content


@contextlib.contextmanager
def _opened(file: LogFile, hadoop: HadoopShell | None) -> Iterator[Any]:
    if hadoop is not None:
        with _shell(file.path, hadoop) as output:
            yield output
    elif "://" not in file.path:
        with open(file.path, "rb", buffering=0) as opened:
            yield opened
    else:
        fs, path = fsspec.url_to_fs(file.path)
        with fs.open(path, "rb", block_size=4 * CHUNK_BYTES) as opened:
            yield opened


@contextlib.contextmanager
def _shell(path: str, hadoop: HadoopShell) -> Iterator[Any]:
    jars = os.path.join(hadoop.home, "jars", "*")
    if not glob.glob(jars):
        raise OSError(f"Spark's jars are not at {jars}: set SPARK_HOME on the executors")
    java_home = os.environ.get("JAVA_HOME") or (java_environment() or {}).get("JAVA_HOME")
    java = os.path.join(java_home, "bin", "java") if java_home else "java"
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as stderr:
        # In a file, not on the command line: the settings contain keys, and other users can list processes.
        settings = Path(folder, "core-site.xml")
        settings.touch(0o600)
        settings.write_text(_xml(hadoop.settings), encoding="utf-8")
        classes = os.pathsep.join((folder, jars))
        command = [java, "-Xmx256m", "-cp", classes, "org.apache.hadoop.fs.FsShell", "-cat", path]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL
        ) as process:
            try:
                yield process.stdout
                if process.wait():
                    stderr.seek(0)
                    raise OSError(
                        f"Hadoop cannot read the file: {_error_line(stderr.read().decode(errors='replace'))}"
                    )
            finally:
                process.kill()


def _xml(settings: Mapping[str, str]) -> str:
    rows = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{''.join(rows)}</configuration>"


def _error_line(text: str) -> str:
    """The error among warnings and stack traces."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [
        line
        for line in lines
        if line.startswith("cat: ") or ("Exception" in line and not line.startswith("at "))
    ]
    return ([*errors, *lines[-1:]] or ["no reason given"])[0][:300]


def spark_home() -> str:
    """Spark's home on this machine."""
    java_home = os.environ.get("SPARK_HOME")
    if java_home:
        return java_home
    import pyspark

    return str(Path(pyspark.__file__).parent)
