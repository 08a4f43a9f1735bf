"""Collect an inventory through fsspec, from a local path or any URL whose backend is installed.

Reads only; writes, locks and creates nothing. A part that cannot be read is listed in the inventory's errors.
"""

from __future__ import annotations

import math
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from controlplane.checkpoints.inventory import selection
from controlplane.checkpoints.inventory.model import FileEntry, Inventory

#: The listing stops here; the inventory is then not `complete`.
MAX_ENTRIES = 200_000
MAX_DEPTH = 16
MAX_ERRORS = 100
#: URL scheme → the package to install where fsspec has no built-in backend.
PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "s3n": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "hdfs": "pyarrow",
    "webhdfs": "requests",
    "dbfs": "requests",
}
#: Spark's name of a scheme → fsspec's.
SCHEMES = {"s3n": "s3", "wasb": "abfs", "wasbs": "abfs"}
#: Stores that list a whole prefix in one request; other file systems are listed folder by folder.
OBJECT_STORES = {"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az"}
#: URL scheme → options of its backend. `max_concurrency`: of the parts of one file; 1 saves a request a file.
OPTIONS: dict[str, dict[str, Any]] = {
    scheme: {"use_listings_cache": False} | ({"max_concurrency": 1} if PACKAGES[scheme] == "s3fs" else {})
    for scheme in OBJECT_STORES
}
NOT_A_FOLDER = "it is a file, not a folder"
_TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")


class CannotOpen(Exception):
    """The URL cannot be opened; the message names what to change."""


def collect(
    url: str,
    now: float,
    *,
    relocations: Iterable[tuple[str, str]] = (),
    contents: bool = True,
    links: bool = True,
    seconds: float = math.inf,
) -> Inventory:
    """List what is at `url`, as of `now` (Unix seconds). Raises CannotOpen for an unknown or missing backend.

    contents: read the files that `selection` chooses. links: follow links. The listing is cut after
    `seconds`.
    """
    fs, root = open_filesystem(url)
    listing = _Listing(fs, root, links, time.monotonic() + seconds)
    empty = Inventory(
        root=root if _scheme(url) == "file" else url,
        entries={},
        collected_at=now,
        collector=f"fsspec {_scheme(url)}",
        relocations=tuple(relocations),
    )
    if _scheme(url) in OBJECT_STORES:  # they have no folders: where nothing is listed, nothing exists
        listing.fill(at_once=True)
        found = replace(empty, exists=bool(listing.entries or listing.errors))
        return _filled(found, listing, contents)
    try:
        if not fs.exists(root):
            return replace(empty, exists=False)
        if not fs.isdir(root):
            return replace(empty, errors=(NOT_A_FOLDER,))
    except Exception as error:  # backends raise exceptions of their own
        return replace(empty, errors=(_error_text(error),))
    listing.fill(at_once=False)
    return _filled(replace(empty, root_modified=_root_time(fs, root)), listing, contents)


def _filled(empty: Inventory, listing: _Listing, contents: bool) -> Inventory:
    chosen = selection.select_files(listing.entries) if contents else []
    held = dict(_read(listing.fs, listing.root, chosen, listing.errors))
    return replace(
        empty,
        entries=listing.entries,
        contents=held,
        complete=not listing.cut,
        errors=tuple(listing.errors),
    )


def with_contents(inventory: Inventory, url: str, paths: Iterable[str]) -> Inventory:
    """The inventory of `url` with the contents of these files added, where it lists them and lacks their contents."""
    missing = [path for path in paths if inventory.is_file(path) and path not in inventory.contents]
    if not missing:
        return inventory
    fs, root = open_filesystem(url)
    errors: list[str] = []
    read = dict(_read(fs, root, missing, errors))
    return replace(inventory, contents={**inventory.contents, **read}, errors=(*inventory.errors, *errors))


def open_filesystem(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path in it. Raises CannotOpen, which names a missing package.

    Backends share one instance in a process. It must not answer from an earlier listing: a running query adds files.
    """
    import fsspec

    scheme, mark, rest = url.partition("://")
    try:
        fs, path = fsspec.core.url_to_fs(
            f"{SCHEMES.get(scheme, scheme)}{mark}{rest}" if mark else _local(url), **OPTIONS.get(scheme, {})
        )
        if scheme in OBJECT_STORES:
            fs.invalidate_cache()  # some backends ignore the option
    except ImportError:
        package = PACKAGES.get(scheme, f"fsspec's backend for {scheme}")
        raise CannotOpen(f"{url}: {scheme}:// needs {package}: pip install {package}") from None
    except Exception as error:
        raise CannotOpen(f"{url}: {_error_text(error)}") from None
    return fs, str(path)


def _local(url: str) -> str:
    """The path of a `file:/a` URL, as Spark prints it."""
    return url.removeprefix("file:") if url.startswith("file:/") else url


def _scheme(url: str) -> str:
    scheme, mark, _ = url.partition("://")
    return scheme if mark else "file"


def _error_text(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:300].rstrip(".")


def _root_time(fs: Any, root: str) -> float | None:
    try:
        return _time(fs.info(root))
    except Exception:
        return None


def _time(info: dict[str, Any]) -> float | None:
    value = next((info[key] for key in _TIMES if info.get(key) is not None), None)
    if isinstance(value, datetime):
        return value.timestamp()
    return float(value) if isinstance(value, int | float) else None


class _Listing:
    """Collects entries up to MAX_ENTRIES and a deadline. `cut`: something is not listed, for these or for an error."""

    def __init__(self, fs: Any, root: str, links: bool, until: float):
        self.fs = fs
        self.links = links
        self.until = until
        self.root = root.rstrip("/")
        self.entries: dict[str, FileEntry] = {}
        self.errors: list[str] = []
        self.cut = False

    def fill(self, at_once: bool) -> None:
        infos = self._found() if at_once else self._walked()
        for info in infos:
            if len(self.entries) >= MAX_ENTRIES or time.monotonic() > self.until:
                self.cut = True
                return
            self._add(info)

    def _add(self, info: dict[str, Any]) -> None:
        path = str(info["name"]).rstrip("/")[len(self.root) :].lstrip("/")
        if not path:
            self.errors += [NOT_A_FOLDER] if _kind(info) == "file" and info.get("size") else []
            return
        if info.get("islink") and not self.links:
            self.errors += [f"{path}: links are not followed"] if len(self.errors) < MAX_ERRORS else []
            return
        kind = _kind(info)
        if kind == "directory":
            self.entries[path] = FileEntry(0, _time(info), folder=True)
        elif kind == "file":
            self.entries[path] = FileEntry(int(info.get("size") or 0), _time(info))

    def _found(self) -> Iterator[dict[str, Any]]:
        try:
            yield from self.fs.find(self.root, withdirs=True, detail=True).values()
        except Exception as error:
            self.cut = True
            self.errors.append(_error_text(error))

    def _walked(self) -> Iterator[dict[str, Any]]:
        pending = [(self.root or "/", 0)]
        while pending:
            folder, depth = pending.pop()
            try:
                infos = sorted(self.fs.ls(folder, detail=True), key=_listing_order)
            except Exception as error:
                self.cut = True
                self.errors.append(f"{folder[len(self.root) :].lstrip('/') or '.'}: {_error_text(error)}")
                continue
            for info in infos:
                yield info
                # A link to a folder may lead in a circle; Spark's checkpoints have none.
                if _kind(info) == "directory" and not info.get("islink") and depth < MAX_DEPTH:
                    pending.append((str(info["name"]), depth + 1))


def _listing_order(info: dict[str, Any]) -> int:
    """Sort key that lists commits/ first and offsets/ second, as the last folder pushed is listed first.

    Everything listed later may then be newer than the logs of a running query, and nothing older."""
    return {"commits": 2, "offsets": 1}.get(str(info["name"]).rpartition("/")[2], 0)


def _kind(info: dict[str, Any]) -> str:
    """`file`, `directory`, or another type that must not be opened (a pipe, a device)."""
    mode = info.get("mode")
    if info.get("islink") and isinstance(mode, int):
        return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else str(info.get("type"))
    return str(info.get("type"))


def _read(fs: Any, root: str, paths: list[str], errors: list[str]) -> Iterator[tuple[str, bytes]]:
    """Read files, 500 per request, which backends fetch concurrently."""
    base = root.rstrip("/")
    for start in range(0, len(paths), 500):
        some = paths[start : start + 500]
        try:
            # Not `cat`, which treats `[` and `*` in a path as a pattern.
            held = fs.cat_ranges([f"{base}/{path}" for path in some], None, None, on_error="return")
        except Exception as error:
            errors.append(_error_text(error))
            continue
        for path, data in zip(some, held, strict=True):
            if isinstance(data, bytes):
                yield path, data
            else:
                errors.append(f"{path}: {_error_text(data)}")
