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
SCHEMES = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "wasb": "abfs", "wasbs": "abfs"}
#: URL scheme → Hadoop's name of it, for Spark.
HADOOP = {"s3": "s3a", "gcs": "gs", "abfs": "abfss"}
#: Filesystems that rename nothing onto a file that is there.
NO_RENAME_OVER = {"hdfs", "viewfs", "webhdfs", "arrow_hdfs"}
#: Between two tries for a lock that somebody has.
LOCK_STEP_SECONDS = 0.02


def _in_our_words(method: Callable[P, T]) -> Callable[P, T]:
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
            self.root = f"{SCHEMES.get(self.scheme, self.scheme)}://{self.root}"
        self._fs: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fs": None}

    def __str__(self) -> str:
        return self.root

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def for_spark(self) -> str:
        """The URL by which Spark finds it."""
        if self.is_local:
            return Path(self.root).as_uri()
        scheme, _, rest = self.root.partition("://")
        return f"{HADOOP.get(scheme, scheme)}://{rest}"

    @property
    def fs(self) -> Any:
        if self._fs is None:
            try:
                self._fs = fsspec.url_to_fs(self.root if not self.is_local else f"file://{self.root}")[0]
            except (ImportError, ValueError) as error:
                raise LakeError(f"{self.root} cannot be opened: {error}") from None
        return self._fs

    def at(self, *parts: str) -> str:
        return posixpath.join(self.root, *parts)

    @_in_our_words
    def exists(self, path: str) -> bool:
        # fsspec's own `exists` takes every error for a no.
        return self.stamp(path) is not None

    @_in_our_words
    def names(self, path: str) -> list[str]:
        """What lies in a folder, by name; nothing where there is none."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.ls(self.at(path), detail=False)
        except FileNotFoundError:
            return []
        return sorted(posixpath.basename(str(one).rstrip("/")) for one in found)

    @_in_our_words
    def below(self, path: str) -> dict[str, tuple[int, float]]:
        """Size and time of change of every file below a folder, by its path in the lake."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.find(self.at(path), detail=True)
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

    @_in_our_words
    def stamp(self, path: str) -> tuple[int, float] | None:
        """Size and time of change, Unix seconds, 0 where nobody knows. None where there is no such file or folder."""
        self.fs.invalidate_cache()
        try:
            entry = self.fs.info(self.at(path))
        except FileNotFoundError:
            return None
        return int(entry.get("size") or 0), _changed(entry)

    @_in_our_words
    def read(self, path: str) -> bytes:
        with self.fs.open(self.at(path), "rb") as file:
            return bytes(file.read())

    def read_json(self, path: str) -> Any:
        """LakeError where the file is no JSON; FileNotFoundError where there is none."""
        try:
            return json.loads(self.read(path))
        except ValueError as error:
            raise LakeError(f"{self.at(path)} is damaged: {error}") from None

    def write_json(self, path: str, document: Any) -> None:
        """The whole file or nothing of it."""
        self.write(path, json.dumps(document, separators=(",", ":")).encode())

    @_in_our_words
    def write(self, path: str, content: bytes) -> None:
        passing = self.at(posixpath.dirname(path), f".{posixpath.basename(path)}.{uuid.uuid4().hex[:8]}")
        self.fs.makedirs(posixpath.dirname(passing), exist_ok=True)
        with self.fs.open(passing, "wb") as file:
            file.write(content)
        self.settle(passing)
        self.rename(passing, self.at(path))

    @_in_our_words
    def move(self, moves: Mapping[str, str]) -> None:
        """Move files within the lake, source -> target, over what is there; the disk is waited for once a folder."""
        for source, target in moves.items():
            self.fs.makedirs(posixpath.dirname(self.at(target)), exist_ok=True)
            self._put(self.at(source), self.at(target))
        if self.is_local:
            for folder in dict.fromkeys(posixpath.dirname(self.at(target)) for target in moves.values()):
                _sync(folder)

    @_in_our_words
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
        if self.scheme in NO_RENAME_OVER and self.fs.exists(target):
            self.fs.rm(target)
        self.fs.mv(source, target)

    def settle(self, absolute: str) -> None:
        """Wait until a file that was written is on the disk."""
        if self.is_local:
            _sync(absolute)

    @_in_our_words
    def remove(self, path: str) -> None:
        """Remove a file or folder; it may be gone already."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.rm(self.at(path), recursive=True)

    @contextlib.contextmanager
    def held(self, name: str, wait: float = 0.0) -> Iterator[None]:
        """Nobody else does `name` meanwhile: LakeError when somebody still does after `wait` seconds.

        On local disks only.
        """
        if not self.is_local:
            yield
            return
        import fcntl

        path = Path(self.root, "_locks", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + wait
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
                    time.sleep(LOCK_STEP_SECONDS)
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
