"""Read files through the driver's own Spark: Hadoop's FileSystem over py4j, with the session's settings.

Whatever Spark can read can be listed and read here. Listing a folder costs four py4j calls regardless of its
size (5 000 files in 0.15 s); reading a small file costs four more (0.5 ms). Read only.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Protocol

from listeners.protocol.errors import FilesError

#: Wrapping file systems to unwrap on the way to the one that shows every file.
MAX_WRAPPERS = 4
#: Statuses read one by one (0.5 ms each) where a listing's text cannot be parsed.
MAX_STATUS_CALLS = 2000
_FIELDS = re.compile(
    r"(?P<name>.+); isDirectory=(?P<folder>true|false)(?:; length=(?P<size>\d+))?.*?"
    r"; modification_time=(?P<modified>-?\d+)",
    re.DOTALL,
)


class ListedFile(NamedTuple):
    """One entry: name, bytes, and modification time in Unix seconds if the file system reports it."""

    name: str
    folder: bool
    size: int
    modified: float | None


class DirectoryReader(Protocol):
    """One directory tree. Paths are relative to its root; every call raises only FilesError."""

    root: str

    def status(self) -> ListedFile:
        """The status of the root."""

    def list_folder(self, folder: str, limit: int) -> tuple[list[ListedFile], bool]:
        """Up to `limit` entries of a folder, and whether these are all of them."""

    def read(self, path: str) -> bytes:
        """A file's content."""


class HadoopFileSystem:
    """One location such as `file:/a`, `s3a://bucket/a` or a relative path; `root` is its qualified name."""

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
        """The status of the root."""
        try:
            return _from_status(self._fs.getFileStatus(self._path(self.root)))
        except Exception as error:
            raise _files_error(error) from None

    def list_folder(self, folder: str, limit: int) -> tuple[list[ListedFile], bool]:
        """Up to `limit` entries of a folder, and whether these are all of them."""
        location = self._absolute(folder)
        try:
            statuses = self._fs.listStatus(self._path(location))
            count = len(statuses)
            wanted = min(count, limit)
            found = parse_listing(str(self._text_of(statuses, wanted)), location)
            if len(found) != wanted:  # this file system's statuses have another text form
                wanted = min(wanted, MAX_STATUS_CALLS)
                found = [_from_status(statuses[i]) for i in range(wanted)]
        except Exception as error:
            raise _files_error(error) from None
        return found, wanted == count

    def read(self, path: str) -> bytes:
        """A file's content."""
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
    """Parse `Array(FileStatus{path=file:/a/b; isDirectory=…}, …)`; empty for any other text form.

    A name may contain anything but a slash, so entries are split at the folder's path.
    """
    chunks = text.split(f"path={folder.rstrip('/')}/")[1:]
    return [_from_match(match) for match in map(_FIELDS.match, chunks) if match]


def _from_match(match: re.Match[str]) -> ListedFile:
    return ListedFile(
        match["name"], match["folder"] == "true", int(match["size"] or 0), int(match["modified"]) / 1000.0
    )


def _from_status(status: Any) -> ListedFile:
    """Read one status field by field."""
    return ListedFile(
        str(status.getPath().getName()),
        bool(status.isDirectory()),
        int(status.getLen()),
        int(status.getModificationTime()) / 1000.0,
    )


def _unwrapped(found: Any) -> Any:
    """The innermost local file system: the ones that wrap it hide the checksum files."""
    from py4j.protocol import Py4JError

    for _ in range(MAX_WRAPPERS):
        try:
            found = found.getRawFileSystem()
        except Py4JError:  # no such method: this is the innermost
            return found
    return found


def _files_error(error: Exception) -> FilesError:
    """Any error of py4j or Java in one line; `gone` if the path does not exist."""
    java_error = getattr(error, "java_exception", None)
    try:
        text = str(java_error.toString()) if java_error is not None else f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    message = " ".join(text.split())[:300]
    return FilesError(
        message, gone=java_error is not None and "FileNotFoundException" in message.partition(":")[0]
    )
