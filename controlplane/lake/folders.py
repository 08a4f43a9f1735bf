"""Where the lake lies: any URL that fsspec opens, a local path among them.

The one place that opens filesystems for the lake. What is written is on the disk when it is said to be.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import posixpath
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import fsspec

from controlplane.errors import LakeError

P = ParamSpec("P")
T = TypeVar("T")
#: URL scheme → fsspec's name of it.
FSSPEC_SCHEMES = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "wasb": "abfs", "wasbs": "abfs"}
#: URL scheme → Hadoop's name of it, for Spark.
HADOOP_SCHEMES = {"s3": "s3a", "gcs": "gs", "abfs": "abfss"}
#: Filesystems that rename nothing onto a file that is there.
NO_OVERWRITING_RENAME = {"hdfs", "viewfs", "webhdfs", "arrow_hdfs"}
#: Between two tries for a lock that somebody has.
LOCK_POLL_SECONDS = 0.02


def _as_lake_error(method: Callable[P, T]) -> Callable[P, T]:
    """Errors of a file system that are no OSError come out as LakeError: botocore has many, of keys and regions."""

    @functools.wraps(method)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except (OSError, LakeError):
            raise
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            where = args[0].root if isinstance(args[0], LakeFolder) else "the lake"
            raise LakeError(f"{where} cannot be used: {type(error).__name__}: {lines[0][:300]}") from error

    return told


class LakeFolder:
    """A folder of the lake, with paths below it by `/`. Can be sent to executors."""

    def __init__(self, url: str):
        scheme, _, rest = url.partition("://")
        self.scheme = scheme if rest else "file"
        self.root = (rest if rest else url).rstrip("/") or "/"
        if self.scheme == "file":
            self.root = str(Path(self.root).absolute())
        else:
            self.root = f"{FSSPEC_SCHEMES.get(self.scheme, self.scheme)}://{self.root}"
        self._fs: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fs": None}

    def __str__(self) -> str:
        return self.root

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def spark_url(self) -> str:
        """The URL by which Spark finds it."""
        if self.is_local:
            return Path(self.root).as_uri()
        scheme, _, rest = self.root.partition("://")
        return f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}"

    @property
    def fs(self) -> Any:
        if self._fs is None:
            try:
                self._fs = fsspec.url_to_fs(self.root if not self.is_local else f"file://{self.root}")[0]
            except (ImportError, ValueError) as error:
                raise LakeError(f"{self.root} cannot be opened: {error}") from None
        return self._fs

    def absolute(self, *parts: str) -> str:
        return posixpath.join(self.root, *parts)

    @_as_lake_error
    def exists(self, path: str) -> bool:
        # fsspec's own `exists` takes every error for a no.
        return self.file_stamp(path) is not None

    @_as_lake_error
    def list_names(self, path: str) -> list[str]:
        """What lies in a folder, by name; nothing where there is none."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.ls(self.absolute(path), detail=False)
        except FileNotFoundError:
            return []
        return sorted(posixpath.basename(str(one).rstrip("/")) for one in found)

    @_as_lake_error
    def list_files(self, path: str) -> dict[str, tuple[int, float]]:
        """Size and time of change of every file below a folder, by its path in the lake."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.find(self.absolute(path), detail=True)
        except FileNotFoundError:
            return {}
        base = self.fs._strip_protocol(self.root)
        return {
            posixpath.relpath(self.fs._strip_protocol(name), base): (
                int(entry.get("size") or 0),
                _changed(entry),
            )
            for name, entry in found.items()
        }

    @_as_lake_error
    def file_stamp(self, path: str) -> tuple[int, float] | None:
        """Size and time of change, Unix seconds, 0 where nobody knows. None where there is no such file or folder."""
        self.fs.invalidate_cache()
        try:
            entry = self.fs.info(self.absolute(path))
        except FileNotFoundError:
            return None
        return int(entry.get("size") or 0), _changed(entry)

    @_as_lake_error
    def read(self, path: str) -> bytes:
        with self.fs.open(self.absolute(path), "rb") as file:
            return bytes(file.read())

    def read_json(self, path: str) -> Any:
        """LakeError where the file is no JSON; FileNotFoundError where there is none."""
        try:
            return json.loads(self.read(path))
        except ValueError as error:
            raise LakeError(f"{self.absolute(path)} is damaged: {error}") from None

    def write_json(self, path: str, document: Any) -> None:
        """The whole file or nothing of it."""
        self.write(path, json.dumps(document, separators=(",", ":")).encode())

    @_as_lake_error
    def write(self, path: str, content: bytes) -> None:
        passing = self.absolute(
            posixpath.dirname(path), f".{posixpath.basename(path)}.{uuid.uuid4().hex[:8]}"
        )
        self.fs.makedirs(posixpath.dirname(passing), exist_ok=True)
        with self.fs.open(passing, "wb") as file:
            file.write(content)
        self.fsync(passing)
        self.rename(passing, self.absolute(path))

    @_as_lake_error
    def move(self, moves: Mapping[str, str]) -> None:
        """Move files within the lake, source -> target, over what is there; the disk is waited for once a folder."""
        for source, target in moves.items():
            self.fs.makedirs(posixpath.dirname(self.absolute(target)), exist_ok=True)
            self._put(self.absolute(source), self.absolute(target))
        if self.is_local:
            for folder in dict.fromkeys(
                posixpath.dirname(self.absolute(target)) for target in moves.values()
            ):
                _sync(folder)

    @_as_lake_error
    def rename(self, source: str, target: str) -> None:
        """The same of one, with whole paths. On object stores this is a copy, which appears as a whole, and a
        removal."""
        self._put(source, target)
        if self.is_local:
            _sync(posixpath.dirname(target))

    def _put(self, source: str, target: str) -> None:
        if self.is_local:
            os.replace(source, target)
            return
        if self.scheme in NO_OVERWRITING_RENAME and self.fs.exists(target):
            self.fs.rm(target)
        self.fs.mv(source, target)

    def fsync(self, absolute: str) -> None:
        """Wait until a file that was written is on the disk."""
        if self.is_local:
            _sync(absolute)

    @_as_lake_error
    def remove(self, path: str) -> None:
        """Remove a file or folder; it may be gone already."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.rm(self.absolute(path), recursive=True)

    @contextlib.contextmanager
    def lock(self, name: str, timeout: float = 0.0) -> Iterator[None]:
        """Nobody else does `name` meanwhile: LakeError when somebody still does after `wait` seconds.

        On local disks only.
        """
        if not self.is_local:
            yield
            return
        import fcntl

        path = Path(self.root, "_locks", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + timeout
        with path.open("a+b") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() >= until:
                        raise LakeError(
                            f"another process does {name} on {self.root}: let it end first"
                        ) from None
                    time.sleep(LOCK_POLL_SECONDS)
            yield


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _changed(entry: dict[str, Any]) -> float:
    for name in ("mtime", "LastModified", "last_modified", "updated", "modified", "created"):
        value = entry.get(name)
        if value is not None:
            return float(value.timestamp() if hasattr(value, "timestamp") else value)
    return 0.0
