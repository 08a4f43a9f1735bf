"""The lake as a whole: opened, written to in commits, mended after a crash.

A commit: parts are written to `_staging`, a journal says what is about to be, what is replaced goes, each part is moved
to its name, the manifest says so, the journal goes. A crash at any moment leaves a journal that the next opening
carries on, or staged files that nobody knows of. Whoever reads by a glob sees each part whole, and no row twice;
between the journal and the manifest, milliseconds unless a crash falls there, it may see too little.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from controlplane.errors import LakeError
from controlplane.lake import manifest as m
from controlplane.lake.folders import LakeFolder
from controlplane.lake.manifest import Commit, LakeManifest, Part
from controlplane.lake.schema import FORMAT, TABLES, VERSION, arrow_schema
from controlplane.lake.staging import Staging

T = TypeVar("T")
CommitKey = tuple[str, str]
#: Size and time of change of a file.
FileStamp = tuple[int, float]
METADATA_FILE, COMMITS, JOURNALS, STAGING = "lake.json", "_manifest", "_journal", "_staging"
CONSOLIDATED_FILE = "base.json"
#: Between job and batch in the name of a journal; in neither.
JOURNAL_SEPARATOR = "~"
#: Whoever commits waits so long for others that do.
COMMIT_LOCK_TIMEOUT_SECONDS = 60.0
#: A reader that comes upon a file that was replaced meanwhile reads the manifest so often anew.
MAX_READ_ATTEMPTS = 5
READ_RETRY_SECONDS = 0.05
#: Staged files that no journal names are swept away after so long: nobody writes them any more.
ORPHAN_SECONDS = 24 * 3600.0


class Lake:
    """Opened by `Lake.open`; one job writes to it by `stage` and `commit`, any number of jobs at once."""

    def __init__(self, folder: LakeFolder):
        self.folder = folder
        self._known: dict[str, tuple[FileStamp, Commit]] = {}
        self._folded: tuple[FileStamp, dict[CommitKey, Commit]] | None = None

    @staticmethod
    def open(url: str, create: bool = False) -> Lake:
        """LakeError where there is none (unless it is to be created), or one that is newer than we are."""
        folder = LakeFolder(url)
        lake = Lake(folder)
        try:
            if not folder.exists(METADATA_FILE):
                if not create:
                    raise LakeError(f"there is no lake at {folder}: {METADATA_FILE} is missing")
                if set(folder.list_names("")) & TABLES.keys():
                    raise LakeError(
                        f"{folder} has folders of a lake but no {METADATA_FILE}: take an empty folder"
                    )
                head = {"format": FORMAT, "version": VERSION, "created_at": time.time()}
                folder.write_json(METADATA_FILE, head)
            head = folder.read_json(METADATA_FILE)
        except OSError as error:
            raise LakeError(f"the lake at {folder} cannot be opened: {error}") from None
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise LakeError(f"{folder.absolute(METADATA_FILE)} is not the head of a lake of ours")
        version = head.get("version")
        if version != VERSION:
            raise LakeError(
                f"the lake at {folder} has version {version}, this release reads version {VERSION}"
            )
        return lake

    # -- reading ---------------------------------------------------------------------------------

    def manifest(self) -> LakeManifest:
        """What the lake holds now. Commits that were read before and did not change are not read again."""
        while True:
            found = self.folder.list_files(COMMITS)
            base = found.pop(f"{COMMITS}/{CONSOLIDATED_FILE}", None)
            commits = dict(self._base(base))
            try:
                loose = [self._commit(path, stamp) for path, stamp in found.items() if _is_commit(path)]
            except FileNotFoundError:  # folded meanwhile: the base has it now
                continue
            self._known = {path: self._known[path] for path in found if path in self._known}
            return LakeManifest(commits | {one.key: one for one in loose})

    def _base(self, stamp: FileStamp | None) -> Mapping[CommitKey, Commit]:
        """The folded commits."""
        if stamp is None:
            self._folded = None
            return {}
        if self._folded is None or self._folded[0] != stamp:
            path = f"{COMMITS}/{CONSOLIDATED_FILE}"
            self._folded = stamp, {one.key: one for one in self._parsed(path, m.commits_from_json)}
        return self._folded[1]

    def _commit(self, path: str, stamp: FileStamp) -> Commit:
        held = self._known.get(path)
        if held is None or held[0] != stamp:
            held = self._known[path] = stamp, self._parsed(path, m.commit_from_json)
        return held[1]

    def _parsed(self, path: str, read: Callable[[Any], T]) -> T:
        """What a file of the lake's own says. LakeError that names the file where it says nothing."""
        document = self.folder.read_json(path)
        try:
            return read(document)
        except LakeError as error:
            raise LakeError(f"{self.folder.absolute(path)}: {error}") from None

    def read(
        self,
        table: str,
        first: date | None = None,
        last: date | None = None,
        columns: Sequence[str] | None = None,
        where: ds.Expression | None = None,
    ) -> pa.Table:
        """Rows of a table, by the manifest. Columns that older files lack are null."""
        for _ in range(MAX_READ_ATTEMPTS - 1):
            try:
                return self._read(table, first, last, columns, where)
            except FileNotFoundError:  # replaced while we read: the next manifest says by what
                time.sleep(READ_RETRY_SECONDS)
        try:
            return self._read(table, first, last, columns, where)
        except FileNotFoundError as error:
            raise LakeError(f"a file that the manifest of {self.folder} names is missing: {error}") from None

    def _read(
        self,
        table: str,
        first: date | None,
        last: date | None,
        columns: Sequence[str] | None,
        where: ds.Expression | None,
    ) -> pa.Table:
        whole = arrow_schema(table)
        chosen = whole if columns is None else pa.schema([whole.field(name) for name in columns])
        paths = [self.folder.absolute(part.path) for part in self.manifest().parts(table, first, last)]
        if not paths:
            return chosen.empty_table()
        try:
            data = ds.dataset(paths, schema=whole, format="parquet", filesystem=self.folder.fs)
            return data.to_table(columns=list(chosen.names), filter=where)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"a file of {table} in {self.folder} cannot be read: {error}") from None

    def paths(self, table: str, first: date | None = None, last: date | None = None) -> list[str]:
        """The files of a table, as Spark finds them."""
        return [f"{self.folder.spark_url}/{part.path}" for part in self.manifest().parts(table, first, last)]

    # -- writing ---------------------------------------------------------------------------------

    def stage(self, job: str, batch: str) -> Staging:
        """A place for the parts of a commit. What a crash left of the same batch is finished first.

        LakeError where the lake is gone: a job that runs for long must not begin another one in its place.
        """
        name = f"{m.checked_name(job)}-{m.checked_name(batch)}-{uuid.uuid4().hex[:8]}"
        if not self.folder.exists(METADATA_FILE):
            raise LakeError(f"the lake at {self.folder} is gone: {METADATA_FILE} is missing")
        with self._alone():
            self._finish(_journal(job, batch))
            previous_state = self.manifest().live_state((job, batch)) if self._may_hold(job, batch) else None
        return Staging(self.folder, job, batch, f"{STAGING}/{name}", previous_state)

    def _alone(self) -> AbstractContextManager[None]:
        """Nobody else changes the lake. On object stores there is no such lock: see docs/history.md."""
        return self.folder.lock("commit", COMMIT_LOCK_TIMEOUT_SECONDS)

    def _may_hold(self, job: str, batch: str) -> bool:
        """Whether a batch may have been committed. Where not, the manifest need not be read."""
        if self.folder.exists(f"{COMMITS}/{job}/{batch}.json"):
            return True
        return (job, batch) in self._base(self.folder.file_stamp(f"{COMMITS}/{CONSOLIDATED_FILE}"))

    def commit(
        self,
        staging: Staging,
        parts: Iterable[Part],
        facts: Mapping[str, Any] | None = None,
        replaces: Iterable[str] = (),
        seen: LakeManifest | None = None,
        check: Callable[[LakeManifest], None] | None = None,
    ) -> Commit:
        """Put staged parts into the lake, instead of what the same batch of the same job put there before.

        `replaces`: paths of other batches that go with it, as they stood in `seen`. LakeError, and the lake as it
        was, where somebody else changed meanwhile what this takes the place of: the job has to be done again.
        `check` is given what the lake holds while nobody else can change it, and refuses by LakeError too.
        """
        asked = Commit(
            staging.job, staging.batch, time.time(), tuple(parts), tuple(replaces), dict(facts or {})
        )
        path = _journal(*asked.key)
        with self._alone():
            self._finish(path)
            known = bool(asked.replaces) or check is not None or self._may_hold(*asked.key)
            held = self.manifest() if known else LakeManifest({})
            try:
                if check is not None:
                    check(held)
                commit, gone = m.next_commit(held, asked, staging.previous_state, seen or held)
                self._check_staged(staging, commit)
            except LakeError:
                self.folder.remove(staging.path)
                raise
            journal = {"commit": m.commit_to_json(commit), "staging": staging.path, "gone": gone}
            self.folder.write_json(path, journal)
            self._carry_out(path, journal)
        return commit

    def _check_staged(self, staging: Staging, commit: Commit) -> None:
        for part in commit.parts:
            if not self.folder.exists(f"{staging.path}/{part.path}"):
                raise LakeError(f"{self.folder.absolute(staging.path, part.path)} was never written")

    def _finish(self, path: str) -> bool:
        """Carry on a commit that a crash cut off; whether there was one."""
        try:
            journal = self.folder.read_json(path)
        except FileNotFoundError:
            return False
        self._carry_out(path, journal)
        return True

    def _carry_out(self, path: str, journal: Any) -> None:
        try:
            commit, staging = m.commit_from_json(journal["commit"]), str(journal["staging"])
            gone = [m.checked_path(one) for one in journal["gone"]]
            if not staging.startswith(f"{STAGING}/") or ".." in staging:
                raise ValueError(f"{staging!r} is no place for staged files")
        except (KeyError, TypeError, ValueError, LakeError) as error:
            raise LakeError(f"{self.folder.absolute(path)} is damaged: {error!r}") from None
        self._check_to_be_had(path, commit, staging)
        for one in gone:
            self.folder.remove(one)
        staged = {f"{staging}/{part.path}": part.path for part in commit.parts}
        self.folder.move({source: path for source, path in staged.items() if self.folder.exists(source)})
        known = f"{COMMITS}/{commit.job}/{commit.batch}.json"
        self.folder.write_json(known, m.commit_to_json(commit))
        self._known.pop(known, None)  # its stamp may be the same: clocks of files tick coarsely
        self.folder.remove(path)
        self.folder.remove(staging)

    def _check_to_be_had(self, path: str, commit: Commit, staging: str) -> None:
        """Nothing is taken away before all that comes instead is known to be there."""
        for part in commit.parts:
            if not self.folder.exists(f"{staging}/{part.path}") and not self.folder.exists(part.path):
                raise LakeError(
                    f"{self.folder.absolute(part.path)} is lost: the commit {commit.job}/{commit.batch} cannot be "
                    f"finished; remove {self.folder.absolute(path)} and run the job again"
                )

    def commit_stamps(self, but: str) -> Mapping[str, FileStamp | None]:
        """By it is seen whether any other job than `but` committed meanwhile, without reading the manifest.

        On local disks only: elsewhere folders have no time of change.
        """
        names = [name for name in self.folder.list_names(COMMITS) if name != but and not name.startswith(".")]
        return {name: self.folder.file_stamp(f"{COMMITS}/{name}") for name in names}

    def recover(self, job: str | None = None) -> int:
        """Finish commits that a crash cut off; how many. `job`: only of this one, when others are at work."""
        names = [name for name in self.folder.list_names(JOURNALS) if _is_journal(name)]
        with self._alone():
            return sum(
                self._finish(f"{JOURNALS}/{name}")
                for name in names
                if job is None or name.partition(JOURNAL_SEPARATOR)[0] == job
            )

    def remove_orphans(self, now: float) -> int:
        """Remove staged files that nobody writes any more; how many commits' worth."""
        wanted = {
            self._staging_of(f"{JOURNALS}/{n}") for n in self.folder.list_names(JOURNALS) if _is_journal(n)
        }
        gone = 0
        for name in self.folder.list_names(STAGING):
            path = f"{STAGING}/{name}"
            changes = [changed for _, changed in self.folder.list_files(path).values()]
            changes.append((self.folder.file_stamp(path) or (0, 0.0))[1])
            if path not in wanted and max(changes) <= now - ORPHAN_SECONDS:
                self.folder.remove(path)
                gone += 1
        for folder in (COMMITS, JOURNALS):
            for path, (_, changed) in self.folder.list_files(folder).items():
                if "/." in path and changed <= now - ORPHAN_SECONDS:
                    self.folder.remove(path)
        return gone

    def _staging_of(self, path: str) -> str:
        try:
            return str(self.folder.read_json(path)["staging"])
        except FileNotFoundError:
            return ""
        except (KeyError, TypeError) as error:
            raise LakeError(f"{self.folder.absolute(path)} is damaged: {error!r}") from None

    def consolidate(self, chosen: Iterable[CommitKey] = (), dropped: Iterable[CommitKey] = ()) -> None:
        """Keep these commits in one file instead of one each, without the files that stand no more; `dropped`:
        forget those of them that have no file left."""
        chosen, forgotten = set(chosen), set(dropped)
        with self._alone():
            held = self.manifest().commits
            loose = {commit.key for _, commit in self._known.values()}
            chosen &= loose
            based = {*self._folded[1]} if self._folded else set()
            kept = m.trim_commits(held, (based | chosen) - (loose - chosen), forgotten)
            self.folder.write_json(f"{COMMITS}/{CONSOLIDATED_FILE}", m.commits_to_json(kept))
            for job, batch in sorted(chosen):
                self._known.pop(f"{COMMITS}/{job}/{batch}.json")
                self.folder.remove(f"{COMMITS}/{job}/{batch}.json")


def _journal(job: str, batch: str) -> str:
    return f"{JOURNALS}/{job}{JOURNAL_SEPARATOR}{batch}.json"


def _is_journal(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _is_commit(path: str) -> bool:
    return path.endswith(".json") and "/." not in path
