"""A folder that surgery writes to, through fsspec: whole files, atomically where the file system can.

Local: a temporary file beside it, fsync, rename. Object stores: one put, which is atomic there. A file that takes the
place of another keeps its mode and owner; whatever a backend raises comes out as OSError.
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
    """What a file holds."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Access:
    """Who may read and write a local file: the bits of its mode (rwx only), its owner and group."""

    mode: int
    uid: int
    gid: int


def digest_of(content: bytes) -> Digest:
    return Digest(hashlib.sha256(content).hexdigest(), len(content))


class CheckpointFolder:
    """One folder by path or URL; paths below it are relative. Raises OSError, as its backend does."""

    def __init__(self, url: str):
        self.url = url
        self._fs, self._root = open_filesystem(url)
        self._local = type(self._fs).__name__ == "LocalFileSystem"

    def __str__(self) -> str:
        """The folder as people name it: absolute where it is local."""
        return self._root if self._local else self.url.rstrip("/")

    @property
    def here(self) -> str | None:
        """The local path; None elsewhere."""
        return self._root if self._local else None

    def exists(self) -> bool:
        with _backend():
            return bool(self._fs.exists(self._root))

    def is_empty(self) -> bool:
        with _backend():
            return not self.exists() or not self._fs.ls(self._root, detail=False)

    def read(self, path: str) -> bytes | None:
        """A whole file; None where there is none."""
        try:
            with _backend():
                return bytes(self._fs.cat_file(self._at(path)))
        except FileNotFoundError:
            return None

    def digest(self, path: str) -> Digest | None:
        """Of a file's bytes; None where there is none."""
        sha, size = hashlib.sha256(), 0
        try:
            for piece in self._pieces(path):
                sha.update(piece)
                size += len(piece)
        except (FileNotFoundError, IsADirectoryError):
            return None
        return Digest(sha.hexdigest(), size)

    def modified(self, path: str) -> float | None:
        """Seconds since 1970, of a local file; None elsewhere: there it cannot be set back."""
        try:
            return os.stat(self._at(path)).st_mtime if self._local else None
        except FileNotFoundError:
            return None

    def access(self, path: str) -> Access | None:
        """Of a local file or folder (`""`: this one) or None where there is none; None elsewhere."""
        return _access(self._at(path) if path else self._root) if self._local else None

    def write(self, path: str, content: bytes) -> None:
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
        """Copy a file in; the digest of what was written. `modified`, `access`: what it shall have, where that can be.

        durable: on disk at once; without, `sync` makes many so together.
        """
        sha, size = hashlib.sha256(), 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for piece in other._pieces(source):
                sha.update(piece)
                size += len(piece)
                yield piece

        self._put(path, counted(), access, durable=durable)
        self.set_modified(path, modified)
        return Digest(sha.hexdigest(), size)

    def sync(self) -> None:
        """All that was written is on disk, where this machine has a say in it."""
        if self._local:
            os.sync()

    def set_modified(self, path: str, seconds: float | None) -> None:
        """Give a local file or folder (`""`: this one) its time back; the doctor reads such times."""
        if self._local and seconds is not None:
            os.utime(self._at(path) if path else self._root, (seconds, seconds))

    def remove(self, path: str) -> None:
        with _backend():
            self._fs.rm_file(self._at(path))

    def remove_empty(self, path: str) -> None:
        """Remove a folder, if it is one and empty; object stores have none."""
        if self._local:
            try:
                os.rmdir(self._at(path))
            except OSError:
                return

    def names(self, path: str) -> list[str]:
        """Names of the files in a folder below; none where it is not there."""
        try:
            with _backend():
                held = self._fs.ls(self._at(path), detail=True, refresh=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(
            str(item["name"]).rstrip("/").rpartition("/")[2] for item in held if item["type"] == "file"
        )

    def tree(self) -> Mapping[str, list[str]]:
        """Every folder below (`""`: this one) with the names of its files; object stores know those with files only."""
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

    def _pieces(self, path: str) -> Iterator[bytes]:
        with _backend(), self._fs.open(self._at(path), "rb") as file:
            while piece := file.read(CHUNK_BYTES):
                yield piece

    def _put(
        self, path: str, pieces: Iterator[bytes], access: Access | None = None, *, durable: bool = True
    ) -> None:
        target = self._at(path)
        if not self._local:
            self._uploaded(target, pieces)
            return
        folder, _, name = target.rpartition("/")
        os.makedirs(self._root, exist_ok=True)
        _made(folder)
        given = access or _access(target) or _as_folder(folder)
        _renamed(f"{folder}/.{name}.surgery.tmp", target, pieces, given, durable)
        if durable:
            _synced(folder)

    def _uploaded(self, target: str, pieces: Iterator[bytes]) -> None:
        """Read to the end first: a file that is closed half read would be put as it is."""
        with tempfile.TemporaryFile() as whole:
            whole.writelines(pieces)
            whole.seek(0)
            with _backend(), self._fs.open(target, "wb") as file:
                shutil.copyfileobj(whole, file, CHUNK_BYTES)

    def _at(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}"


@contextmanager
def _backend() -> Iterator[None]:
    """Backends of object stores raise what they like; surgery knows OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(" ".join(f"{type(error).__name__}: {error}".split())[:300]) from error


def _walked(root: str) -> Iterator[tuple[str, list[str]]]:
    """OSError where a folder cannot be listed: a name that is not seen would be taken for gone."""

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
    """What a new file shall have: readable for those who read the folder, whatever our umask is."""
    held = os.stat(folder)
    return Access(held.st_mode & 0o664, held.st_uid, held.st_gid)


def _made(folder: str) -> None:
    """Make a folder with those above it, each with the access of the one that it lies in."""
    above = os.path.dirname(folder)
    if os.path.isdir(folder):
        return
    _made(above)
    os.mkdir(folder)
    held = os.stat(above)
    _quietly(lambda: os.chown(folder, held.st_uid, held.st_gid))
    _quietly(lambda: os.chmod(folder, held.st_mode & 0o777))


def _renamed(temporary: str, target: str, pieces: Iterator[bytes], access: Access, durable: bool) -> None:
    """Write beside the target and put it in place in one move."""
    try:
        with open(temporary, "wb") as file:
            # A file of somebody else's stays his only where we are root; the mode can always be kept.
            _quietly(lambda: os.fchown(file.fileno(), access.uid, access.gid))
            os.fchmod(file.fileno(), access.mode)
            for piece in pieces:
                file.write(piece)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        _quietly(lambda: os.unlink(temporary))
        raise


def _quietly(act: Callable[[], Any]) -> None:
    try:
        act()
    except OSError:
        return


def _synced(folder: str) -> None:
    """Make a rename durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
