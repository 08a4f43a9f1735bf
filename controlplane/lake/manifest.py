"""The lake's manifest: one small JSON file per commit, by job and batch. Plain values.

A file of a table that no commit names is not part of the lake. What a commit `replaces` is removed with it,
unless the batch of the replaced file is committed again later. A job that repeats a batch commits under the
same name, so rows are never stored twice.
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
#: Allowed paths of a part. Nothing else is ever moved to or removed.
PATH = re.compile(r"[a-z][a-z0-9_]*/date=\d{4}-\d\d-\d\d/[A-Za-z0-9][^/\\]*\.parquet")


@dataclass(frozen=True)
class Part:
    """One Parquet file of a table. `path`: below the lake's root; `date`: the day of all its rows."""

    table: str
    date: date
    path: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Commit:
    """The parts that one batch of a job added. `at`: Unix seconds; `replaces`: paths of parts that it
    replaced.

    `facts`: JSON values that the job stores for later runs.
    """

    job: str
    batch: str
    at: float
    parts: tuple[Part, ...] = ()
    replaces: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Job and batch."""
        return self.job, self.batch

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True)
class LakeManifest:
    """All commits, by job and batch."""

    commits: Mapping[tuple[str, str], Commit]

    def get(self, job: str, batch: str) -> Commit | None:
        """The commit of a batch; None where there is none."""
        return self.commits.get((job, batch))

    def commits_of_job(self, job: str) -> dict[str, Commit]:
        """All commits of a job, by batch."""
        return {batch: commit for (name, batch), commit in self.commits.items() if name == job}

    @cached_property
    def live_parts(self) -> dict[str, tuple[Part, Commit]]:
        """Every file of the lake by path, with the commit that added it.

        A commit removes what it replaces from older commits only: a batch committed again afterwards is live.
        """
        removed_at: dict[str, float] = {}
        for commit in self.commits.values():
            for path in commit.replaces:
                removed_at[path] = max(commit.at, removed_at.get(path, commit.at))
        return {
            part.path: (part, commit)
            for commit in self.commits.values()
            for part in commit.parts
            if removed_at.get(part.path, float("-inf")) < commit.at
        }

    def live_state(self, key: tuple[str, str]) -> tuple[float, frozenset[str]] | None:
        """Time of a batch's last commit and its files that are still live. None: never committed."""
        commit = self.commits.get(key)
        if commit is None:
            return None
        return commit.at, frozenset(
            part.path for part in commit.parts if self.live_parts.get(part.path, (None, None))[1] is commit
        )

    def parts(self, table: str, first: date | None = None, last: date | None = None) -> list[Part]:
        """Files of a table with first ≤ day ≤ last, sorted by day and path."""
        found = [
            part
            for part, _ in self.live_parts.values()
            if part.table == table
            and (first is None or part.date >= first)
            and (last is None or part.date <= last)
        ]
        return sorted(found, key=lambda part: (part.date, part.path))

    def dates(self, table: str) -> list[date]:
        """Days on which a table has files."""
        return sorted({part.date for part in self.parts(table)})


def next_commit(
    held: LakeManifest,
    requested: Commit,
    previous_state: tuple[float, frozenset[str]] | None,
    seen_manifest: LakeManifest,
) -> tuple[Commit, list[str]]:
    """Return the commit to write over what the lake holds now, and the paths to remove with it.

    `requested`: the commit with the paths of other batches that it replaces, as they were in `seen_manifest`;
    `previous_state`: the state of its own batch when the work began. LakeError where either has changed
    since. The new commit's time is later than those of all commits it replaces, whatever the machines' clocks
    show.
    """
    kept = {part.path for part in requested.parts}
    if len(kept) != len(requested.parts):
        raise LakeError(f"two parts of {requested.job}/{requested.batch} have the same name")
    own, replaced = held.live_state(requested.key), set(requested.replaces) - kept
    if own != previous_state or any(_owner(held, path) != _owner(seen_manifest, path) for path in replaced):
        raise LakeError(
            f"another job changed the lake while {requested.job}/{requested.batch} ran. Nothing was lost: "
            "run the job again"
        )
    before = held.commits.get(requested.key)
    inherited = {path for path in before.replaces if path not in held.live_parts} if before else set()
    at = max([requested.at, *(_later(commit.at) for commit in _predecessors(held, requested.key, replaced))])
    commit = replace(requested, at=at, replaces=tuple(sorted(replaced | inherited - kept)))
    return commit, sorted(replaced | (own[1] if own else frozenset()) - kept)


def _owner(manifest: LakeManifest, path: str) -> tuple[tuple[str, str], float] | None:
    found = manifest.live_parts.get(path)
    return (found[1].key, found[1].at) if found else None


def _predecessors(held: LakeManifest, key: tuple[str, str], replaced: set[str]) -> list[Commit]:
    """The commits that the new one must follow: its previous version, commits that replaced files of that,
    and the owners of the files it replaces.
    """
    before = held.commits.get(key)
    owners = [held.live_parts[path][1] for path in replaced if path in held.live_parts]
    if before is None:
        return owners
    return [before, *owners, *(commit for commit in held.commits.values() if commit.replaces)]


def _later(at: float) -> float:
    return at + 1e-5


def checked_name(text: str) -> str:
    """Return a name that is valid for a job or a batch. LakeError where it is not."""
    if not NAME.fullmatch(text):
        raise LakeError(
            f"{text!r} is not a valid job name: use letters, digits, dots and dashes, at most 121 characters"
        )
    return text


def commit_to_json(commit: Commit) -> Json:
    """The commit as a JSON document."""
    document = asdict(commit)
    for part in document["parts"]:
        part["date"] = part["date"].isoformat()
    return document


def commit_from_json(document: Any) -> Commit:
    """Parse a commit. LakeError where the document is not one."""
    try:
        parts = tuple(
            Part(
                item["table"],
                date.fromisoformat(item["date"]),
                checked_path(item["path"]),
                item["rows"],
                item["bytes"],
            )
            for item in document["parts"]
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
    """Return a path that is valid for a part. ValueError where it is not: it could lead out of the lake."""
    if not isinstance(text, str) or not PATH.fullmatch(text):
        raise ValueError(f"{text!r} is not the path of a part")
    return text


def commits_to_json(commits: Iterable[Commit]) -> Json:
    """Many commits as one document."""
    return {"commits": [commit_to_json(commit) for commit in commits]}


def commits_from_json(document: Any) -> list[Commit]:
    """Parse the document of `commits_to_json`. LakeError where it is damaged."""
    found = document.get("commits") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise LakeError("the consolidated commits of the lake are damaged")
    return [commit_from_json(item) for item in found]


def trim_commits(
    commits: Mapping[tuple[str, str], Commit], chosen: Set[tuple[str, str]], dropped: Set[tuple[str, str]]
) -> list[Commit]:
    """Return the chosen commits without parts that are no longer live and without `replaces` entries that no
    commit names any more. Commits of `dropped` with nothing left are omitted.
    """
    live_parts = LakeManifest(commits).live_parts
    trimmed = {
        key: replace(
            commits[key],
            parts=tuple(
                p for p in commits[key].parts if live_parts.get(p.path, (p, None))[1] is commits[key]
            ),
        )
        for key in sorted(chosen)
    }
    named = {part.path for key, item in commits.items() if key not in chosen for part in item.parts}
    named |= {part.path for commit in trimmed.values() for part in commit.parts}
    kept = {
        key: replace(commit, replaces=tuple(path for path in commit.replaces if path in named))
        for key, commit in trimmed.items()
    }
    return [item for key, item in kept.items() if item.parts or item.replaces or key not in dropped]
