"""List the files below the given paths: with fsspec where it supports the file system, else with Hadoop
through py4j.

Runs on the driver, once per import. Paths keep their scheme, so that executors open them the same way.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import fsspec
from pyspark.sql import SparkSession

from controlplane.lake.folders import FSSPEC_SCHEMES
from controlplane.pipeline.eventlogs.discovery import LogFile, RejectedLog
from controlplane.pipeline.runtime.session import error_line

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_WILD = re.compile(r"[*?\[{]")
#: Hidden folders contain no logs.
_HIDDEN = re.compile(r"(^|/)[._][^/]*/")


def scheme_of(path: str) -> str:
    """The scheme of a URL; `file` for a local path."""
    match = _SCHEME.match(path)
    return match[1].lower() if match else "file"


def fsspec_supports(scheme: str) -> bool:
    """Whether fsspec can open such URLs here, that is, its package for them is installed."""
    try:
        fsspec.get_filesystem_class(FSSPEC_SCHEMES.get(scheme, scheme))
    except (ImportError, ValueError):
        return False
    return scheme != "hdfs"  # fsspec's needs a native library; Hadoop's own client is available


def list_files(
    start: Callable[[], SparkSession], paths: Iterable[str]
) -> tuple[list[LogFile], list[str], list[RejectedLog]]:
    """Return all files below the paths, the paths of files that were named explicitly, and the paths that
    cannot be listed.
    """
    files: list[LogFile] = []
    named: list[str] = []
    refused: list[RejectedLog] = []
    for path in paths:
        scheme = scheme_of(path)
        try:
            listed = list(
                _local(path)
                if scheme == "file"
                else _remote(path, scheme)
                if fsspec_supports(scheme)
                else _hadoop(start(), path)
            )
        except Exception as error:  # each file system raises its own errors
            refused.append(RejectedLog(path, f"cannot be listed: {error_line(error)}"))
            continue
        if not listed:
            refused.append(RejectedLog(path, "no such file or folder"))
        for file, is_named in listed:
            if isinstance(file, RejectedLog):
                refused.append(file)
                continue
            files.append(file)
            if is_named:
                named.append(file.path)
    return files, named, refused


def _local(path: str) -> Iterator[tuple[LogFile | RejectedLog, bool]]:
    local_path = re.sub(r"^file:/+", "/", path)
    is_pattern = bool(_WILD.search(local_path)) and not os.path.exists(local_path)
    for place in sorted(glob.glob(local_path, recursive=True)) if is_pattern else [local_path]:
        absolute = str(Path(place).absolute())
        if os.path.isdir(absolute):
            yield from ((list_files, False) for list_files in _below(absolute))
        elif os.path.lexists(absolute):
            yield _stat(absolute), not is_pattern


def _below(folder: str) -> Iterator[LogFile | RejectedLog]:
    closed: list[OSError] = []
    visited = {
        os.path.realpath(folder)
    }  # links are followed, but each folder is visited once: links may form cycles
    for here, names, members in os.walk(folder, onerror=closed.append, followlinks=True):
        # Folders before links to them: a log is listed under its own path where there is one.
        ordered = sorted(names, key=lambda name: (os.path.islink(os.path.join(here, name)), name))
        names[:] = [
            name for name in ordered if not name.startswith((".", "_")) and _is_new(here, name, visited)
        ]
        yield from (_stat(os.path.join(here, member)) for member in members)
    yield from (RejectedLog(str(error.filename), f"cannot be listed: {error.strerror}") for error in closed)


def _is_new(here: str, name: str, visited: set[str]) -> bool:
    """Whether a folder was not visited yet; it is marked as visited."""
    place = os.path.realpath(os.path.join(here, name))
    before = len(visited)
    visited.add(place)
    return len(visited) > before


def _stat(path: str) -> LogFile | RejectedLog:
    try:
        known = os.stat(path)
    except OSError as error:  # a dangling link, or a file removed meanwhile
        return RejectedLog(path, f"unreadable: {error.strerror}")
    return LogFile(path, known.st_size, known.st_mtime)


def _remote(path: str, scheme: str) -> Iterator[tuple[LogFile, bool]]:
    fs, root = fsspec.url_to_fs(f"{FSSPEC_SCHEMES.get(scheme, scheme)}{path[len(scheme) :]}")
    is_pattern = bool(_WILD.search(root))
    for place in sorted(fs.glob(root)) if is_pattern else [root]:
        if fs.isdir(place):
            for entry in fs.find(place, detail=True).values():
                if not _HIDDEN.search(str(entry["name"])[len(place) :]):
                    yield _entry(fs, entry), False
        else:
            yield _entry(fs, fs.info(place)), not is_pattern


def _entry(fs: Any, entry: dict[str, Any]) -> LogFile:
    modified = next(
        (entry[key] for key in ("mtime", "LastModified", "last_modified", "updated") if entry.get(key)), 0.0
    )
    seconds = modified.timestamp() if hasattr(modified, "timestamp") else modified
    seconds = float(seconds) if isinstance(seconds, (int, float)) else 0.0
    return LogFile(fs.unstrip_protocol(entry["name"]), int(entry.get("size") or 0), seconds)


def _hadoop(spark: SparkSession, path: str) -> Iterator[tuple[LogFile, bool]]:
    jvm: Any = spark.sparkContext._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    here = jvm.org.apache.hadoop.fs.Path(path)
    fs = here.getFileSystem(conf)
    for status in fs.globStatus(here) or ():
        if status.isFile():
            yield _status(status), not _WILD.search(path)
            continue
        below = fs.listFiles(status.getPath(), True)
        while below.hasNext():
            item = below.next()
            if not _HIDDEN.search(item.getPath().toString()[len(status.getPath().toString()) :]):
                yield _status(item), False


def _status(status: Any) -> LogFile:
    return LogFile(status.getPath().toString(), status.getLen(), status.getModificationTime() / 1000)
