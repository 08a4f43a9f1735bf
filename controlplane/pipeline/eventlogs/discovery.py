"""Find event logs among files, and group the files of each. Pure: names, sizes and times in, logs out.

Spark names logs `app-…`, `application_…`, `local-…` or `spark-…`, followed by attempt, codec and
`.inprogress`; or as a folder `eventlog_v2_…` of numbered files. A compacted file replaces all files before
it.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.pipeline.eventlogs.codecs import CODECS

_CODEC = "|".join(name for name in CODECS if name)
_SINGLE = re.compile(
    rf"(?P<app>(?:app|application|local|spark)[-_][\w-]+)(?:\.(?P<codec>{_CODEC}))?(?P<open>\.inprogress)?"
)
_ROLLED = re.compile(
    rf"events_(?P<index>\d{{1,9}})_[\w-]+(?:\.(?P<codec>{_CODEC}))?(?P<compact>\.compact)?(?P<open>\.inprogress)?"
)
_ATTEMPT = re.compile(r"(?P<id>application_\d+_\d+|[^_]+)_(?P<attempt>\w+)")
ROLLING_PREFIX = "eventlog_v2_"
STATUS_PREFIX = "appstatus_"


@dataclass(frozen=True)
class LogFile:
    """A listed file. `path`: with its scheme; `modified`: Unix seconds."""

    path: str
    size: int
    modified: float

    @property
    def name(self) -> str:
        """The file name."""
        return posixpath.basename(self.path)


@dataclass(frozen=True)
class EventLog:
    """An event log: the files of one attempt of one application, in order."""

    app_id: str
    attempt: str | None
    path: str
    files: tuple[LogFile, ...]
    codecs: tuple[str, ...]
    in_progress: bool
    #: Problems with its files, one sentence each.
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def modified(self) -> float:
        """Latest modification time, Unix seconds."""
        return max(file.modified for file in self.files)

    @property
    def batch(self) -> str:
        """The name of the log's commit: independent of the log's location and of whether it is in
        progress.
        """
        return hashlib.sha256(f"{self.app_id}\n{self.attempt or ''}".encode()).hexdigest()[:24]

    @property
    def fingerprint(self) -> list[list[Any]]:
        """Names, sizes and times of the files, by which a change is noticed."""
        return [[file.name, file.size, round(file.modified, 3)] for file in self.files]


@dataclass(frozen=True)
class RejectedLog:
    """A file or a log that is not imported, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        """One printable line: file names may contain any bytes."""
        text = f"{self.path}: {self.reason}"
        return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def find_logs(
    files: Iterable[LogFile], named: Iterable[str] = ()
) -> tuple[list[EventLog], list[RejectedLog]]:
    """Return the logs among the files, largest first, and the files that belong to none.

    `named`: paths that the user gave explicitly; they are treated as logs whatever their names are.
    """
    folders: dict[str, list[LogFile]] = {}
    logs: list[EventLog] = []
    refused: list[RejectedLog] = []
    is_named = set(named)
    for file in sorted({item.path: item for item in files}.values(), key=lambda item: item.path):
        folder = posixpath.dirname(file.path)
        if posixpath.basename(folder).startswith(ROLLING_PREFIX):
            folders.setdefault(folder, []).append(file)
            continue
        found = _single(file, file.path in is_named)
        if isinstance(found, EventLog):
            logs.append(found)
        elif found is not None:
            refused.append(found)
    for folder, folder_files in folders.items():
        rolled, unrecognized = _rolling(folder, folder_files)
        refused += unrecognized
        logs += [rolled] if rolled else []
    return _without_copies(logs, refused)


def _single(file: LogFile, is_named: bool) -> EventLog | RejectedLog | None:
    if not is_named and file.name.startswith((".", "_")):
        return None  # checksums and other metadata of file systems
    match = _SINGLE.fullmatch(file.name)
    if match is None and not is_named:
        return RejectedLog(file.path, "the name is not that of an event log")
    if not file.size:
        return RejectedLog(file.path, "the file is empty")
    if match is None:
        extension = file.name.rpartition(".")[2]
        codec = extension if extension in CODECS else ""
        return EventLog(file.name, None, file.path, (file,), (codec,), file.name.endswith(".inprogress"))
    app_id, attempt = _attempt(match["app"])
    return EventLog(app_id, attempt, file.path, (file,), (match["codec"] or "",), bool(match["open"]))


def _attempt(name: str) -> tuple[str, str | None]:
    if re.fullmatch(r"application_\d+_\d+", name):
        return name, None
    match = _ATTEMPT.fullmatch(name)
    return (match["id"], match["attempt"]) if match else (name, None)


def _rolling(folder: str, folder_files: Sequence[LogFile]) -> tuple[EventLog | None, list[RejectedLog]]:
    rolling_files: list[tuple[int, bool, str, LogFile]] = []
    refused: list[RejectedLog] = []
    in_progress = False
    for file in folder_files:
        match = _ROLLED.fullmatch(file.name)
        if match:
            rolling_files.append((int(match["index"]), bool(match["compact"]), match["codec"] or "", file))
        elif file.name.startswith(STATUS_PREFIX):
            in_progress = in_progress or file.name.endswith(".inprogress")
        elif not file.name.startswith((".", "_")):
            refused.append(RejectedLog(file.path, "the name is not that of a file of a rolling event log"))
    current_files, notes = _current_files(rolling_files)
    if not current_files:
        return None, [*refused, RejectedLog(folder, "the folder has no event file")]
    app_id, attempt = _attempt(posixpath.basename(folder)[len(ROLLING_PREFIX) :])
    files, codecs = (
        tuple(current_file[3] for current_file in current_files),
        tuple(current_file[2] for current_file in current_files),
    )
    return EventLog(app_id, attempt, folder, files, codecs, in_progress, tuple(notes)), refused


def _current_files(
    files: Sequence[tuple[int, bool, str, LogFile]],
) -> tuple[list[tuple[int, bool, str, LogFile]], list[str]]:
    """The newest compacted file and those after it, and notes on missing ones."""
    compacted = [file for file in files if file[1]]
    newest = max(compacted, key=lambda item: item[0], default=None)
    after = newest[0] if newest else 0
    later = sorted(
        (file for file in files if not file[1] and file[0] > after),
        key=lambda file: file[0],
    )
    missing = sorted(set(range(after + 1, later[-1][0])) - {item[0] for item in later}) if later else []
    notes = [f"events_{index} is missing" for index in missing[:5]]
    if len(missing) > 5:
        notes.append(f"{len(missing) - 5} more files are missing")
    current_files = [*([newest] if newest else []), *later]
    return [current_file for current_file in current_files if current_file[3].size], notes


def _without_copies(
    logs: Iterable[EventLog], refused: list[RejectedLog]
) -> tuple[list[EventLog], list[RejectedLog]]:
    """Of several logs of the same attempt keep the largest."""
    taken: dict[str, EventLog] = {}
    for log in sorted(logs, key=lambda item: (-item.size, item.path)):
        known = taken.setdefault(log.batch, log)
        if known is not log:
            refused.append(RejectedLog(log.path, f"same log as {known.path}, which is not smaller"))
    return list(taken.values()), sorted(refused, key=lambda item: item.path)
