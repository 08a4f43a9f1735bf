"""What the lake holds: one small file a commit, by job and batch. Plain values.

A file of a table that no commit names is none of the lake's; what a commit `replaces` is gone with it, unless its
own batch was done again later. A job that does a batch again writes the same name again, so nothing is ever twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

from controlplane.errors import LakeError

Json = dict[str, Any]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
#: Where a part may lie. Nothing else is ever moved to, or removed.
PATH = re.compile(r"[a-z][a-z0-9_]*/date=\d{4}-\d\d-\d\d/[A-Za-z0-9][^/\\]*\.parquet")


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
class LakeManifest:
    """All commits, by job and batch."""

    commits: Mapping[tuple[str, str], Commit]

    def get(self, job: str, batch: str) -> Commit | None:
        return self.commits.get((job, batch))

    def commits_of_job(self, job: str) -> dict[str, Commit]:
        return {batch: commit for (name, batch), commit in self.commits.items() if name == job}

    @cached_property
    def live_parts(self) -> dict[str, tuple[Part, Commit]]:
        """Every file of the lake by its path, with the commit that put it there.

        A commit takes away what it replaces from older commits only: a batch that is done again afterwards stands.
        """
        gone: dict[str, float] = {}
        for commit in self.commits.values():
            for path in commit.replaces:
                gone[path] = max(commit.at, gone.get(path, commit.at))
        return {
            part.path: (part, commit)
            for commit in self.commits.values()
            for part in commit.parts
            if gone.get(part.path, float("-inf")) < commit.at
        }

    def live_state(self, key: tuple[str, str]) -> tuple[float, frozenset[str]] | None:
        """When a batch was committed last, and which of its files still stand. None: never."""
        commit = self.commits.get(key)
        if commit is None:
            return None
        return commit.at, frozenset(
            part.path for part in commit.parts if self.live_parts.get(part.path, (None, None))[1] is commit
        )

    def parts(self, table: str, first: date | None = None, last: date | None = None) -> list[Part]:
        """Files of a table with days first ≤ day ≤ last, in the order of day and path."""
        found = [
            part
            for part, _ in self.live_parts.values()
            if part.table == table
            and (first is None or part.date >= first)
            and (last is None or part.date <= last)
        ]
        return sorted(found, key=lambda part: (part.date, part.path))

    def dates(self, table: str) -> list[date]:
        return sorted({part.date for part in self.parts(table)})


def next_commit(
    held: LakeManifest, asked: Commit, previous_state: tuple[float, frozenset[str]] | None, seen: LakeManifest
) -> tuple[Commit, list[str]]:
    """The commit that is to be, over what the lake holds now, and the paths that go with it.

    `asked`: with the paths of others that it replaces, as they stood in `seen`; `previous_state`: what of its own batch stood
    when it began. LakeError where either changed since. Its time is later than that of all it takes the place of,
    whatever the clocks of the machines say.
    """
    kept = {part.path for part in asked.parts}
    if len(kept) != len(asked.parts):
        raise LakeError(f"two parts of {asked.job}/{asked.batch} have one name")
    own, replaced = held.live_state(asked.key), set(asked.replaces) - kept
    if own != previous_state or any(_owner(held, path) != _owner(seen, path) for path in replaced):
        raise LakeError(
            f"the lake was changed by another job below {asked.job}/{asked.batch}: run the job again, "
            "nothing was lost"
        )
    before = held.commits.get(asked.key)
    inherited = {path for path in before.replaces if path not in held.live_parts} if before else set()
    at = max([asked.at, *(_later(commit.at) for commit in _predecessors(held, asked.key, replaced))])
    commit = replace(asked, at=at, replaces=tuple(sorted(replaced | inherited - kept)))
    return commit, sorted(replaced | (own[1] if own else frozenset()) - kept)


def _owner(manifest: LakeManifest, path: str) -> tuple[tuple[str, str], float] | None:
    found = manifest.live_parts.get(path)
    return (found[1].key, found[1].at) if found else None


def _predecessors(held: LakeManifest, key: tuple[str, str], replaced: set[str]) -> list[Commit]:
    """The commits that a new one comes after: its former self, whoever replaced files of that, owners of its files."""
    before = held.commits.get(key)
    owners = [held.live_parts[path][1] for path in replaced if path in held.live_parts]
    if before is None:
        return owners
    return [before, *owners, *(commit for commit in held.commits.values() if commit.replaces)]


def _later(at: float) -> float:
    return at + 1e-5


def checked_name(text: str) -> str:
    """A name that a job or a batch may have. LakeError where it is none."""
    if not NAME.fullmatch(text):
        raise LakeError(f"{text!r} is no name for a job: letters, digits, dots, dashes, at most 120")
    return text


def commit_to_json(commit: Commit) -> Json:
    document = asdict(commit)
    for part in document["parts"]:
        part["date"] = part["date"].isoformat()
    return document


def commit_from_json(document: Any) -> Commit:
    """LakeError where it is no commit."""
    try:
        parts = tuple(
            Part(
                one["table"],
                date.fromisoformat(one["date"]),
                checked_path(one["path"]),
                one["rows"],
                one["bytes"],
            )
            for one in document["parts"]
        )
        return Commit(
            checked_name(document["job"]),
            checked_name(document["batch"]),
            float(document["at"]),
            parts,
            tuple(checked_path(path) for path in document["replaces"]),
            dict(document["facts"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LakeError(f"a commit of the lake is damaged ({error!r})") from None


def checked_path(text: Any) -> str:
    """A path that a part may have. ValueError where it is none: it might lead out of the lake."""
    if not isinstance(text, str) or not PATH.fullmatch(text):
        raise ValueError(f"{text!r} is no path of a part")
    return text


def commits_to_json(commits: Iterable[Commit]) -> Json:
    """Many commits in one document."""
    return {"commits": [commit_to_json(commit) for commit in commits]}


def commits_from_json(document: Any) -> list[Commit]:
    """LakeError where these are no folded commits."""
    found = document.get("commits") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise LakeError("the folded commits of the lake are damaged")
    return [commit_from_json(one) for one in found]


def trim_commits(
    commits: Mapping[tuple[str, str], Commit], chosen: Set[tuple[str, str]], dropped: Set[tuple[str, str]]
) -> list[Commit]:
    """The chosen commits in fewer words: files that stand no more are left out, and that they were replaced where
    no commit names them any more; of `dropped` those with nothing left to tell are left out altogether.
    """
    live_parts = LakeManifest(commits).live_parts
    slim = {
        key: replace(
            commits[key],
            parts=tuple(
                p for p in commits[key].parts if live_parts.get(p.path, (p, None))[1] is commits[key]
            ),
        )
        for key in sorted(chosen)
    }
    named = {part.path for key, one in commits.items() if key not in chosen for part in one.parts}
    named |= {part.path for commit in slim.values() for part in commit.parts}
    kept = {
        key: replace(commit, replaces=tuple(path for path in commit.replaces if path in named))
        for key, commit in slim.items()
    }
    return [one for key, one in kept.items() if one.parts or one.replaces or key not in dropped]
