"""Access to the lake's location: any URL that fsspec opens, including a local path.

The only module that opens file systems for the lake. A write returns after the data is on the disk.
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
#: URL scheme → fsspec's name of the protocol.
FSSPEC_SCHEMES = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "wasb": "abfs", "wasbs": "abfs"}
#: fsspec's protocol → Hadoop's URL scheme, for Spark.
HADOOP_SCHEMES = {"s3": "s3a", "gcs": "gs", "abfs": "abfss"}
#: File systems whose rename does not replace an existing file.
NO_OVERWRITING_RENAME = {"hdfs", "viewfs", "webhdfs", "arrow_hdfs"}
#: fsspec's protocols without folders or renames, where one put of a file is atomic.
OBJECT_STORES = {"s3", "gcs", "abfs", "abfss", "az"}
#: Pause between two attempts to take a lock.
LOCK_POLL_SECONDS = 0.02


def _as_lake_error(method: Callable[P, T]) -> Callable[P, T]:
    """Convert errors of remote file systems, of whatever type, into LakeError that names the lake.

    A missing file stays FileNotFoundError; errors of a local disk stay OSError.
    """

    @functools.wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except (FileNotFoundError, LakeError):
            raise
        except Exception as error:
            folder = args[0] if isinstance(args[0], LakeFolder) else None
            if isinstance(error, OSError) and (folder is None or folder.is_local):
                raise
            lines = str(error).strip().splitlines() or [""]
            kind = type(error).__name__
            raise LakeError(f"{folder or 'the lake'} cannot be used: {kind}: {lines[0][:300]}") from error

    return wrapper


class LakeFolder:
    """The lake's root folder; paths below it use `/`. Can be pickled for executors."""

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
        """Whether the lake is on a local disk."""
        return self.scheme == "file"

    @property
    def is_object_store(self) -> bool:
        """Whether the lake is on an object store."""
        return self.root.partition("://")[0] in OBJECT_STORES

    @property
    def spark_url(self) -> str:
        """The URL under which Spark opens the folder."""
        if self.is_local:
            return Path(self.root).as_uri()
        scheme, _, rest = self.root.partition("://")
        return f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}"

    @property
    def fs(self) -> Any:
        """The fsspec file system, opened on first use. LakeError where its package is missing."""
        if self._fs is None:
            try:
                self._fs = fsspec.url_to_fs(self.root if not self.is_local else f"file://{self.root}")[0]
            except (ImportError, ValueError) as error:
                raise LakeError(f"{self.root} cannot be opened: {error}") from None
        return self._fs

    def absolute(self, *parts: str) -> str:
        """The absolute path or URL of a path below the root."""
        return posixpath.join(self.root, *parts)

    @_as_lake_error
    def exists(self, path: str) -> bool:
        """Whether the file or folder exists."""
        # fsspec's own `exists` reports False for every error.
        return self.file_stamp(path) is not None

    @_as_lake_error
    def list_names(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty where the folder does not exist."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.ls(self.absolute(path), detail=False)
        except FileNotFoundError:
            return []
        return sorted(posixpath.basename(str(entry).rstrip("/")) for entry in found)

    @_as_lake_error
    def list_files(self, path: str) -> dict[str, tuple[int, float]]:
        """Size and modification time of every file below a folder, by its path in the lake."""
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
        """Size and modification time (Unix seconds, 0 where unknown). None where the file or folder does not
        exist.
        """
        self.fs.invalidate_cache()
        try:
            entry = self.fs.info(self.absolute(path))
        except FileNotFoundError:
            return None
        return int(entry.get("size") or 0), _changed(entry)

    @_as_lake_error
    def read(self, path: str) -> bytes:
        """The content of a file."""
        with self.fs.open(self.absolute(path), "rb") as file:
            return bytes(file.read())

    def read_json(self, path: str) -> Any:
        """Read a JSON file. LakeError where it is not JSON; FileNotFoundError where it does not exist."""
        try:
            return json.loads(self.read(path))
        except ValueError as error:
            raise LakeError(f"{self.absolute(path)} is damaged: {error}") from None

    def write_json(self, path: str, document: Any) -> None:
        """Write a JSON file atomically."""
        self.write(path, json.dumps(document, separators=(",", ":")).encode())

    @_as_lake_error
    def write(self, path: str, content: bytes) -> None:
        """Write a file atomically: by one put, or under a temporary name and renamed."""
        if self.is_object_store:
            self.fs.pipe_file(self.absolute(path), content)
            return
        temporary = self.absolute(
            posixpath.dirname(path), f".{posixpath.basename(path)}.{uuid.uuid4().hex[:8]}"
        )
        self.make_parent(temporary)
        with self.fs.open(temporary, "wb") as file:
            file.write(content)
        self.fsync(temporary)
        self.rename(temporary, self.absolute(path))

    @_as_lake_error
    def move(self, moves: Mapping[str, str]) -> None:
        """Move files within the lake (source → target), replacing existing ones; sync each folder once."""
        for source, target in moves.items():
            self.make_parent(self.absolute(target))
            self._put(self.absolute(source), self.absolute(target))
        if self.is_local:
            for folder in dict.fromkeys(
                posixpath.dirname(self.absolute(target)) for target in moves.values()
            ):
                _sync(folder)

    @_as_lake_error
    def rename(self, source: str, target: str) -> None:
        """Rename one file given by absolute paths. On object stores this is an atomic copy and a deletion."""
        self._put(source, target)
        if self.is_local:
            _sync(posixpath.dirname(target))

    def _put(self, source: str, target: str) -> None:
        if self.is_local:
            os.replace(source, target)
            return
        if self.is_object_store:  # `mv` would list both names first
            self.fs.cp_file(source, target)
            self.fs.rm_file(source)
            return
        if self.scheme in NO_OVERWRITING_RENAME and self.fs.exists(target):
            self.fs.rm(target)
        self.fs.mv(source, target)

    def make_parent(self, absolute: str) -> None:
        """Create the folder of a file; object stores need none."""
        if not self.is_object_store:
            self.fs.makedirs(posixpath.dirname(absolute), exist_ok=True)

    def fsync(self, absolute: str) -> None:
        """Wait until a written file is on the disk."""
        if self.is_local:
            _sync(absolute)

    @_as_lake_error
    def remove(self, path: str) -> None:
        """Remove a file or folder, which may not exist."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.rm(self.absolute(path), recursive=True)

    @contextlib.contextmanager
    def lock(self, name: str, timeout: float = 0.0) -> Iterator[None]:
        """Hold the lock `name`. LakeError when another process still holds it after `timeout` seconds.

        Local disks only; elsewhere this does nothing.
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
                            f"another process runs {name} on {self.root}: wait until it has finished"
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
