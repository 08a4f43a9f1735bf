"""A file of an event log as decoded chunks, on whichever file system it lies. Called on executors, by `scanning`.

Where fsspec does not know the file system, Hadoop's own shell reads it and we read its output: nothing of the file is
ever whole in memory, and nothing but what Spark brings is needed.
"""

from __future__ import annotations

import contextlib
import glob
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
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
    """How Hadoop's shell is run: where Spark's jars are, and the session's settings of file systems."""

    home: str
    settings: Mapping[str, str] = field(default_factory=dict)


def read_chunks(file: LogFile, codec: str, hadoop: HadoopShell | None, start: int = 0) -> Iterator[bytes]:
    """Decoded bytes from `start` on, which only files without a codec may have. OSError or codecs.Damaged.

    `hadoop`: where Hadoop is to read it.
    """
    with _opened(file, hadoop) as opened:
        if start:
            opened.seek(start)
        yield from CODECS[codec](opened)


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
        raise OSError(f"Spark's jars are not at {jars}: SPARK_HOME on the executors must say where Spark is")
    home = os.environ.get("JAVA_HOME") or (java_environment() or {}).get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        # In a file, not on the command line: among the settings are keys, and anybody may list processes.
        settings = Path(folder, "core-site.xml")
        settings.touch(0o600)
        settings.write_text(_xml(hadoop.settings), encoding="utf-8")
        classes = os.pathsep.join((folder, jars))
        command = [java, "-Xmx256m", "-cp", classes, "org.apache.hadoop.fs.FsShell", "-cat", path]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL
        ) as process:
            try:
                yield process.stdout
                if process.wait():
                    said.seek(0)
                    raise OSError(
                        f"Hadoop cannot read it: {_error_line(said.read().decode(errors='replace'))}"
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
    """The line that says what is wrong, among warnings and stack traces."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [
        line
        for line in lines
        if line.startswith("cat: ") or ("Exception" in line and not line.startswith("at "))
    ]
    return ([*told, *lines[-1:]] or ["it says nothing of why"])[0][:300]


def spark_home() -> str:
    """Where Spark's jars are on this machine."""
    home = os.environ.get("SPARK_HOME")
    if home:
        return home
    import pyspark

    return str(Path(pyspark.__file__).parent)
