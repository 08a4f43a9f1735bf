"""Which files are event logs, and which belong together. Pure: names, sizes and times in, logs out.

Spark names them `app-…`, `application_…`, `local-…` or `spark-…`, with the attempt, the codec and `.inprogress`
behind; or as a folder `eventlog_v2_…` of numbered files. A compacted file stands for all before it.
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
    """A file as it was listed. `path` as its file system has it, with its scheme; `modified`: Unix seconds."""

    path: str
    size: int
    modified: float

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)


@dataclass(frozen=True)
class EventLog:
    """One event log: the files of one attempt at one application, in their order."""

    app_id: str
    attempt: str | None
    path: str
    files: tuple[LogFile, ...]
    codecs: tuple[str, ...]
    in_progress: bool
    #: What is not as it should be with its files, in words.
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def modified(self) -> float:
        return max(file.modified for file in self.files)

    @property
    def batch(self) -> str:
        """The name of its commit: the same wherever the log lies, and whether it is in progress or not."""
        return hashlib.sha256(f"{self.app_id}\n{self.attempt or ''}".encode()).hexdigest()[:24]

    @property
    def fingerprint(self) -> list[list[Any]]:
        """The same while nobody wrote to it."""
        return [[file.name, file.size, round(file.modified, 3)] for file in self.files]


@dataclass(frozen=True)
class RejectedLog:
    """A file or a log that is not taken, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        """In one line, and in signs that every terminal takes: names of files may hold any bytes."""
        told = f"{self.path}: {self.reason}"
        return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in told)


def find_logs(
    files: Iterable[LogFile], named: Iterable[str] = ()
) -> tuple[list[EventLog], list[RejectedLog]]:
    """The logs that these files are, the largest first, and what is none of any.

    `named`: paths that a user gave one by one; they are taken for logs whatever they are called.
    """
    folders: dict[str, list[LogFile]] = {}
    logs: list[EventLog] = []
    refused: list[RejectedLog] = []
    asked = set(named)
    for file in sorted({one.path: one for one in files}.values(), key=lambda one: one.path):
        folder = posixpath.dirname(file.path)
        if posixpath.basename(folder).startswith(ROLLING_PREFIX):
            folders.setdefault(folder, []).append(file)
            continue
        found = _single(file, file.path in asked)
        if isinstance(found, EventLog):
            logs.append(found)
        elif found is not None:
            refused.append(found)
    for folder, members in folders.items():
        rolled, strangers = _rolling(folder, members)
        refused += strangers
        logs += [rolled] if rolled else []
    return _without_copies(logs, refused)


def _single(file: LogFile, asked: bool) -> EventLog | RejectedLog | None:
    if not asked and file.name.startswith((".", "_")):
        return None  # checksums and other marks of file systems
    match = _SINGLE.fullmatch(file.name)
    if match is None and not asked:
        return RejectedLog(file.path, "its name is none of an event log's")
    if not file.size:
        return RejectedLog(file.path, "it is empty")
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


def _rolling(folder: str, members: Sequence[LogFile]) -> tuple[EventLog | None, list[RejectedLog]]:
    numbered: list[tuple[int, bool, str, LogFile]] = []
    refused: list[RejectedLog] = []
    in_progress = False
    for file in members:
        match = _ROLLED.fullmatch(file.name)
        if match:
            numbered.append((int(match["index"]), bool(match["compact"]), match["codec"] or "", file))
        elif file.name.startswith(STATUS_PREFIX):
            in_progress = in_progress or file.name.endswith(".inprogress")
        elif not file.name.startswith((".", "_")):
            refused.append(RejectedLog(file.path, "its name is none of a rolling event log's"))
    chosen, notes = _current_files(numbered)
    if not chosen:
        return None, [*refused, RejectedLog(folder, "it has no file of events")]
    app_id, attempt = _attempt(posixpath.basename(folder)[len(ROLLING_PREFIX) :])
    files, codecs = tuple(one[3] for one in chosen), tuple(one[2] for one in chosen)
    return EventLog(app_id, attempt, folder, files, codecs, in_progress, tuple(notes)), refused


def _current_files(
    numbered: Sequence[tuple[int, bool, str, LogFile]],
) -> tuple[list[tuple[int, bool, str, LogFile]], list[str]]:
    """The files that count: the newest compacted one and what came after it. And which are missing."""
    compacted = [one for one in numbered if one[1]]
    newest = max(compacted, key=lambda one: one[0], default=None)
    after = newest[0] if newest else 0
    later = sorted((one for one in numbered if not one[1] and one[0] > after), key=lambda one: one[0])
    missing = sorted(set(range(after + 1, later[-1][0])) - {one[0] for one in later}) if later else []
    notes = [f"events_{index} is missing" for index in missing[:5]]
    if len(missing) > 5:
        notes.append(f"{len(missing) - 5} more of its files are missing")
    chosen = [*([newest] if newest else []), *later]
    return [one for one in chosen if one[3].size], notes


def _without_copies(
    logs: Iterable[EventLog], refused: list[RejectedLog]
) -> tuple[list[EventLog], list[RejectedLog]]:
    """Of logs of the same attempt at the same application the one that tells most."""
    taken: dict[str, EventLog] = {}
    for log in sorted(logs, key=lambda one: (-one.size, one.path)):
        known = taken.setdefault(log.batch, log)
        if known is not log:
            refused.append(
                RejectedLog(log.path, f"it is the same log as {known.path}, which is larger or equal")
            )
    return list(taken.values()), sorted(refused, key=lambda one: one.path)
