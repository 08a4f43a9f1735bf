"""A folder that a repair writes to, through fsspec: whole files, atomically where the file system allows it.

Local files: temporary file, fsync, rename. Object stores: one put, which is atomic there. A replaced file
keeps its mode and owner. Errors of backends are raised as OSError.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from controlplane.checkpoints.inventory.collector import open_filesystem

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Digest:
    """SHA-256 and size in bytes of a file."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Access:
    """Permissions of a local file: the rwx bits of its mode, its owner and group."""

    mode: int
    uid: int
    gid: int


def digest_of(content: bytes) -> Digest:
    """The digest of these bytes."""
    return Digest(hashlib.sha256(content).hexdigest(), len(content))


class CheckpointFolder:
    """A folder by path or URL; paths of its methods are relative to it. Methods raise OSError."""

    def __init__(self, url: str):
        self.url = url
        self._fs, self._root = open_filesystem(url)
        self._local = type(self._fs).__name__ == "LocalFileSystem"

    def __str__(self) -> str:
        """The path or URL for messages; a local path is absolute."""
        return self._root if self._local else self.url.rstrip("/")

    @property
    def local_path(self) -> str | None:
        """The local path; None for other file systems."""
        return self._root if self._local else None

    def exists(self) -> bool:
        """Whether the folder exists."""
        with _backend():
            return bool(self._fs.exists(self._root))

    def is_empty(self) -> bool:
        """Whether the folder is missing or has no entries."""
        with _backend():
            return not self.exists() or not self._fs.ls(self._root, detail=False)

    def read(self, path: str) -> bytes | None:
        """The content of a file; None where it does not exist."""
        try:
            with _backend():
                return bytes(self._fs.cat_file(self._at(path)))
        except FileNotFoundError:
            return None

    def digest(self, path: str) -> Digest | None:
        """The digest of a file; None where it does not exist."""
        sha, size = hashlib.sha256(), 0
        try:
            for chunk in self._chunks(path):
                sha.update(chunk)
                size += len(chunk)
        except (FileNotFoundError, IsADirectoryError):
            return None
        return Digest(sha.hexdigest(), size)

    def modified(self, path: str) -> float | None:
        """Modification time of a local file in Unix seconds; None elsewhere, where it could not be restored."""
        try:
            return os.stat(self._at(path)).st_mtime if self._local else None
        except FileNotFoundError:
            return None

    def access(self, path: str) -> Access | None:
        """Permissions of a local file or folder (`""`: this one); None where it does not exist or is not local."""
        return _access(self._at(path) if path else self._root) if self._local else None

    def write(self, path: str, content: bytes) -> None:
        """Write a whole file, durably."""
        self._put(path, iter([content]))

    def copy_from(
        self,
        other: CheckpointFolder,
        source: str,
        path: str,
        modified: float | None = None,
        *,
        access: Access | None = None,
        durable: bool = True,
    ) -> Digest:
        """Copy a file from another folder and return the digest of what was written.

        modified, access: time and permissions of the copy, where they can be set.
        durable: flush it to disk now; else `sync` flushes many together.
        """
        sha, size = hashlib.sha256(), 0

        def chunks() -> Iterator[bytes]:
            nonlocal size
            for chunk in other._chunks(source):
                sha.update(chunk)
                size += len(chunk)
                yield chunk

        self._put(path, chunks(), access, durable=durable)
        self.set_modified(path, modified)
        return Digest(sha.hexdigest(), size)

    def sync(self) -> None:
        """Flush everything written to a local file system to disk."""
        if self._local:
            os.sync()

    def set_modified(self, path: str, seconds: float | None) -> None:
        """Restore the time of a local file or folder (`""`: this one); the doctor reads such times."""
        if self._local and seconds is not None:
            os.utime(self._at(path) if path else self._root, (seconds, seconds))

    def remove(self, path: str) -> None:
        """Remove a file."""
        with _backend():
            self._fs.rm_file(self._at(path))

    def remove_empty(self, path: str) -> None:
        """Remove a folder if it exists and is empty; object stores have no folders."""
        if self._local:
            try:
                os.rmdir(self._at(path))
            except OSError:
                return

    def names(self, path: str) -> list[str]:
        """The file names in a folder, sorted; empty where it does not exist."""
        try:
            with _backend():
                held = self._fs.ls(self._at(path), detail=True, refresh=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(
            str(item["name"]).rstrip("/").rpartition("/")[2] for item in held if item["type"] == "file"
        )

    def tree(self) -> Mapping[str, list[str]]:
        """Every folder (`""`: this one) with its file names; of an object store, only folders with files."""
        if self._local:
            return dict(_walked(self._root))
        with _backend():
            self._fs.invalidate_cache()
            found = self._fs.find(self._root, detail=False) if self.exists() else []
        held: dict[str, list[str]] = {}
        for path in sorted(str(name) for name in found):
            folder, _, name = path[len(self._root.rstrip("/")) + 1 :].rpartition("/")
            held.setdefault(folder, []).append(name)
        return held

    def _chunks(self, path: str) -> Iterator[bytes]:
        with _backend(), self._fs.open(self._at(path), "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def _put(
        self, path: str, chunks: Iterator[bytes], access: Access | None = None, *, durable: bool = True
    ) -> None:
        target = self._at(path)
        if not self._local:
            self._upload(target, chunks)
            return
        folder, _, name = target.rpartition("/")
        os.makedirs(self._root, exist_ok=True)
        _make_folders(folder)
        given = access or _access(target) or _as_folder(folder)
        _write_and_rename(f"{folder}/.{name}.repair.tmp", target, chunks, given, durable)
        if durable:
            _sync_folder(folder)

    def _upload(self, target: str, chunks: Iterator[bytes]) -> None:
        """Buffer all chunks first: an upload that is closed early would store a part of the file."""
        with tempfile.TemporaryFile() as whole:
            whole.writelines(chunks)
            whole.seek(0)
            with _backend(), self._fs.open(target, "wb") as file:
                shutil.copyfileobj(whole, file, CHUNK_BYTES)

    def _at(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}"


@contextmanager
def _backend() -> Iterator[None]:
    """Turn every error of a backend into an OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(" ".join(f"{type(error).__name__}: {error}".split())[:300]) from error


def _walked(root: str) -> Iterator[tuple[str, list[str]]]:
    """Every folder with its file names. Raises OSError where one cannot be listed: its names would count as gone."""

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for folder, _, names in os.walk(root, onerror=fail):
        files = sorted(name for name in names if os.path.isfile(f"{folder}/{name}"))
        yield folder[len(root.rstrip("/")) + 1 :], files


def _access(path: str) -> Access | None:
    try:
        held = os.stat(path)
    except FileNotFoundError:
        return None
    return Access(held.st_mode & 0o777, held.st_uid, held.st_gid)


def _as_folder(folder: str) -> Access:
    """Permissions for a new file: those of its folder, whatever the umask."""
    held = os.stat(folder)
    return Access(held.st_mode & 0o664, held.st_uid, held.st_gid)


def _make_folders(folder: str) -> None:
    """Make a folder and its parents, each with the permissions of its parent."""
    above = os.path.dirname(folder)
    if os.path.isdir(folder):
        return
    _make_folders(above)
    os.mkdir(folder)
    held = os.stat(above)
    _ignore_os_error(lambda: os.chown(folder, held.st_uid, held.st_gid))
    _ignore_os_error(lambda: os.chmod(folder, held.st_mode & 0o777))


def _write_and_rename(
    temporary: str, target: str, chunks: Iterator[bytes], access: Access, durable: bool
) -> None:
    """Write a temporary file and rename it to the target."""
    try:
        with open(temporary, "wb") as file:
            # Only root can keep another user's ownership; the mode can always be kept.
            _ignore_os_error(lambda: os.fchown(file.fileno(), access.uid, access.gid))
            os.fchmod(file.fileno(), access.mode)
            for chunk in chunks:
                file.write(chunk)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        _ignore_os_error(lambda: os.unlink(temporary))
        raise


def _ignore_os_error(act: Callable[[], Any]) -> None:
    try:
        act()
    except OSError:
        return


def _sync_folder(folder: str) -> None:
    """Make a rename durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
