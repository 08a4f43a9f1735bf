"""What the lake holds: one small file a commit, by job and batch. Plain values.

A file of a table that no commit names is none of the lake's; what a commit `replaces` is gone with it. A job that
does a batch again writes the same name again, so nothing is ever twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from controlplane.errors import LakeError

Json = dict[str, Any]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


@dataclass(frozen=True)
class Part:
    """One Parquet file of a table. `path` below the lake; `date`: the day of all its rows."""

    table: str
    date: date
    path: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Commit:
    """What one batch of a job put into the lake. `at`: Unix seconds; `replaces`: paths that it took the place of.

    `facts`: what the job wants to know of it later, as JSON.
    """

    job: str
    batch: str
    at: float
    parts: tuple[Part, ...] = ()
    replaces: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        return self.job, self.batch

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True)
class Manifest:
    """All commits, by job and batch."""

    commits: Mapping[tuple[str, str], Commit]

    def of(self, job: str, batch: str) -> Commit | None:
        return self.commits.get((job, batch))

    def of_job(self, job: str) -> dict[str, Commit]:
        return {batch: commit for (name, batch), commit in self.commits.items() if name == job}

    def parts(self, table: str, first: date | None = None, last: date | None = None) -> list[Part]:
        """Files of a table with days first ≤ day ≤ last, in the order of day and path."""
        gone = {path for commit in self.commits.values() for path in commit.replaces}
        found = {
            part.path: part
            for commit in self.commits.values()
            for part in commit.parts
            if part.table == table
            and part.path not in gone
            and (first is None or part.date >= first)
            and (last is None or part.date <= last)
        }
        return sorted(found.values(), key=lambda part: (part.date, part.path))

    def dates(self, table: str) -> list[date]:
        return sorted({part.date for part in self.parts(table)})


def name_of(text: str) -> str:
    """A name that a job or a batch may have. LakeError where it is none."""
    if not NAME.fullmatch(text):
        raise LakeError(f"{text!r} is no name for a job: letters, digits, dots, dashes, at most 120")
    return text


def to_json(commit: Commit) -> Json:
    document = asdict(commit)
    for part in document["parts"]:
        part["date"] = part["date"].isoformat()
    return document


def from_json(document: Mapping[str, Any]) -> Commit:
    """LakeError where it is no commit."""
    try:
        parts = tuple(
            Part(one["table"], date.fromisoformat(one["date"]), one["path"], one["rows"], one["bytes"])
            for one in document["parts"]
        )
        return Commit(
            document["job"],
            document["batch"],
            float(document["at"]),
            parts,
            tuple(document["replaces"]),
            dict(document["facts"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LakeError(f"a commit of the lake is damaged ({error!r})") from None


def folded(commits: Iterable[Commit]) -> Json:
    """Many commits in one document."""
    return {"commits": [to_json(commit) for commit in commits]}


def unfolded(document: Mapping[str, Any]) -> list[Commit]:
    found = document.get("commits") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise LakeError("the folded commits of the lake are damaged")
    return [from_json(one) for one in found]
