"""Files as the driver's own Spark sees them: Hadoop's FileSystem over py4j, with the session's settings.

Whatever Spark can read can be listed and read here. A folder costs four py4j calls however many files it
holds (5 000 in 0.15 s), a small file's content four more (0.5 ms). Read only.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Protocol

from listeners.protocol.errors import FilesError

#: File systems that wrap one another around the one that shows every file.
MAX_WRAPPERS = 4
#: Entries that are asked for one by one (0.5 ms each) where a listing's text cannot be read.
MAX_STATUS_CALLS = 2000
_FIELDS = re.compile(
    r"(?P<name>.+); isDirectory=(?P<folder>true|false)(?:; length=(?P<size>\d+))?.*?"
    r"; modification_time=(?P<modified>-?\d+)",
    re.DOTALL,
)


class ListedFile(NamedTuple):
    """A file or folder: its name, bytes, and seconds since 1970 where the file system tells."""

    name: str
    folder: bool
    size: int
    modified: float | None


class DirectoryReader(Protocol):
    """What a collector asks of a place. Paths are relative to it; all calls raise FilesError only."""

    root: str

    def status(self) -> ListedFile:
        """The place itself."""

    def list_folder(self, folder: str, limit: int) -> tuple[list[ListedFile], bool]:
        """What is in a folder, and whether that is all: at most `limit` are told."""

    def read(self, path: str) -> bytes: ...


class HadoopFileSystem:
    """One place, `file:/a`, `s3a://bucket/a` or relative; `root` is its full name."""

    def __init__(self, session: Any, location: str):
        try:
            jvm = session.sparkContext._jvm
            self._path = jvm.org.apache.hadoop.fs.Path
            self._text_of = jvm.scala.runtime.ScalaRunTime.stringOf
            self._bytes_of = jvm.org.apache.commons.io.IOUtils.toByteArray
            root_path = self._path(location)
            found = root_path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
            self.root = str(found.makeQualified(root_path).toString())
            self._fs = _unwrapped(found) if self.root.startswith("file:") else found
        except Exception as error:
            raise _files_error(error) from None

    def status(self) -> ListedFile:
        try:
            return _from_status(self._fs.getFileStatus(self._path(self.root)))
        except Exception as error:
            raise _files_error(error) from None

    def list_folder(self, folder: str, limit: int) -> tuple[list[ListedFile], bool]:
        location = self._absolute(folder)
        try:
            statuses = self._fs.listStatus(self._path(location))
            count = len(statuses)
            wanted = min(count, limit)
            found = parse_listing(str(self._text_of(statuses, wanted)), location)
            if len(found) != wanted:  # this file system words it in another way
                wanted = min(wanted, MAX_STATUS_CALLS)
                found = [_from_status(statuses[i]) for i in range(wanted)]
        except Exception as error:
            raise _files_error(error) from None
        return found, wanted == count

    def read(self, path: str) -> bytes:
        try:
            stream = self._fs.open(self._path(self._absolute(path)))
            try:
                return bytes(self._bytes_of(stream))
            finally:
                stream.close()
        except Exception as error:
            raise _files_error(error) from None

    def _absolute(self, path: str) -> str:
        return f"{self.root.rstrip('/')}/{path}" if path else self.root


def parse_listing(text: str, folder: str) -> list[ListedFile]:
    """`Array(FileStatus{path=file:/a/b; isDirectory=…}, …)` → what it lists, if it is worded so.

    A name may hold all but a slash, so the folder's path before it parts one entry from the next.
    """
    chunks = text.split(f"path={folder.rstrip('/')}/")[1:]
    return [_from_match(match) for match in map(_FIELDS.match, chunks) if match]


def _from_match(match: re.Match[str]) -> ListedFile:
    return ListedFile(
        match["name"], match["folder"] == "true", int(match["size"] or 0), int(match["modified"]) / 1000.0
    )


def _from_status(status: Any) -> ListedFile:
    """One status, field by field."""
    return ListedFile(
        str(status.getPath().getName()),
        bool(status.isDirectory()),
        int(status.getLen()),
        int(status.getModificationTime()) / 1000.0,
    )


def _unwrapped(found: Any) -> Any:
    """The local file system without those around it, which hide the checksum files."""
    from py4j.protocol import Py4JError

    for _ in range(MAX_WRAPPERS):
        try:
            found = found.getRawFileSystem()
        except Py4JError:  # it has no such method: it is the innermost
            return found
    return found


def _files_error(error: Exception) -> FilesError:
    """Any error of py4j or Java in one line; `gone` where there is nothing at that path."""
    java_error = getattr(error, "java_exception", None)
    try:
        text = str(java_error.toString()) if java_error is not None else f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    message = " ".join(text.split())[:300]
    return FilesError(
        message, gone=java_error is not None and "FileNotFoundException" in message.partition(":")[0]
    )
