"""The lake as a whole: open, read, commit, recover after a crash.

A commit proceeds in steps: parts are written to `_staging`, a journal records the change, replaced files are
removed, each part is moved to its name, the manifest records the commit, the journal is removed. After a
crash at any moment there is either a journal, which the next opening completes, or staged files that nothing
refers to. A reader of a glob sees each part completely and no row twice. Between journal and manifest
(milliseconds, unless a crash occurs there) it may see too few rows.
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
#: Size and modification time of a file.
FileStamp = tuple[int, float]
METADATA_FILE, COMMITS, JOURNALS, STAGING = "lake.json", "_manifest", "_journal", "_staging"
CONSOLIDATED_FILE = "base.json"
#: Separates job and batch in a journal's name; neither contains it.
JOURNAL_SEPARATOR = "~"
#: How long a commit waits for other commits.
COMMIT_LOCK_TIMEOUT_SECONDS = 60.0
#: How often a reader reads the manifest again after a file was replaced under it.
MAX_READ_ATTEMPTS = 5
READ_RETRY_SECONDS = 0.05
#: Age at which staged files that no journal names are removed: their writer is gone.
ORPHAN_SECONDS = 24 * 3600.0


class Lake:
    """Opened by `Lake.open`. A job writes by `stage` and `commit`; any number of jobs may do so at once."""

    def __init__(self, folder: LakeFolder):
        self.folder = folder
        self._known: dict[str, tuple[FileStamp, Commit]] = {}
        self._folded: tuple[FileStamp, dict[CommitKey, Commit]] | None = None

    @staticmethod
    def open(url: str, create: bool = False) -> Lake:
        """Open a lake. LakeError where there is none (unless `create`), or where its version differs."""
        folder = LakeFolder(url)
        lake = Lake(folder)
        try:
            if not folder.exists(METADATA_FILE):
                if not create:
                    raise LakeError(f"there is no lake at {folder}: {METADATA_FILE} is missing")
                if set(folder.list_names("")) & TABLES.keys():
                    raise LakeError(
                        f"{folder} has folders of a lake but no {METADATA_FILE}: choose an empty folder"
                    )
                head = {"format": FORMAT, "version": VERSION, "created_at": time.time()}
                folder.write_json(METADATA_FILE, head)
            head = folder.read_json(METADATA_FILE)
        except OSError as error:
            raise LakeError(f"the lake at {folder} cannot be opened: {error}") from None
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise LakeError(f"{folder.absolute(METADATA_FILE)} is not the metadata file of a lake")
        version = head.get("version")
        if version != VERSION:
            raise LakeError(
                f"the lake at {folder} has version {version}, this release reads version {VERSION}"
            )
        return lake

    # -- reading ---------------------------------------------------------------------------------

    def manifest(self) -> LakeManifest:
        """The current manifest. Commit files that have not changed since they were read are kept."""
        while True:
            found = self.folder.list_files(COMMITS)
            base = found.pop(f"{COMMITS}/{CONSOLIDATED_FILE}", None)
            commits = dict(self._base(base))
            try:
                loose = [self._commit(path, stamp) for path, stamp in found.items() if _is_commit(path)]
            except FileNotFoundError:  # consolidated meanwhile: read again
                continue
            self._known = {path: self._known[path] for path in found if path in self._known}
            return LakeManifest(commits | {item.key: item for item in loose})

    def _base(self, stamp: FileStamp | None) -> Mapping[CommitKey, Commit]:
        """The consolidated commits."""
        if stamp is None:
            self._folded = None
            return {}
        if self._folded is None or self._folded[0] != stamp:
            path = f"{COMMITS}/{CONSOLIDATED_FILE}"
            self._folded = stamp, {item.key: item for item in self._parsed(path, m.commits_from_json)}
        return self._folded[1]

    def _commit(self, path: str, stamp: FileStamp) -> Commit:
        held = self._known.get(path)
        if held is None or held[0] != stamp:
            held = self._known[path] = stamp, self._parsed(path, m.commit_from_json)
        return held[1]

    def _parsed(self, path: str, read: Callable[[Any], T]) -> T:
        """Parse one of the lake's own files. LakeError that names the file where it is damaged."""
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
        """Read rows of a table by the manifest. Columns that older files lack are null."""
        for _ in range(MAX_READ_ATTEMPTS - 1):
            try:
                return self._read(table, first, last, columns, where)
            except FileNotFoundError:  # replaced during the read: the next manifest names its successor
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
        """URLs of a table's files, for Spark."""
        return [f"{self.folder.spark_url}/{part.path}" for part in self.manifest().parts(table, first, last)]

    # -- writing ---------------------------------------------------------------------------------

    def stage(self, job: str, batch: str) -> Staging:
        """Create the staging area of a commit, after completing an interrupted commit of the same batch.

        LakeError where the lake is gone: a running job must not create a new one in its place.
        """
        name = f"{m.checked_name(job)}-{m.checked_name(batch)}-{uuid.uuid4().hex[:8]}"
        if not self.folder.exists(METADATA_FILE):
            raise LakeError(f"the lake at {self.folder} no longer exists: {METADATA_FILE} is missing")
        with self._commit_lock():
            self._finish_commit(_journal(job, batch))
            previous_state = (
                self.manifest().live_state((job, batch)) if self._may_contain(job, batch) else None
            )
        return Staging(self.folder, job, batch, f"{STAGING}/{name}", previous_state)

    def _commit_lock(self) -> AbstractContextManager[None]:
        """The commit lock. Object stores have none: see docs/history.md."""
        return self.folder.lock("commit", COMMIT_LOCK_TIMEOUT_SECONDS)

    def _may_contain(self, job: str, batch: str) -> bool:
        """Whether the batch may have been committed. If not, the manifest need not be read."""
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
        """Add staged parts to the lake, replacing what the same batch of the same job added before.

        `replaces`: paths of other batches that are removed with it, as they were in `seen`. LakeError, with
        the lake unchanged, where another process has changed these meanwhile: the job has to be repeated.
        `check` receives the manifest while the lock is held and may reject the commit by LakeError.
        """
        requested = Commit(
            staging.job, staging.batch, time.time(), tuple(parts), tuple(replaces), dict(facts or {})
        )
        path = _journal(*requested.key)
        with self._commit_lock():
            self._finish_commit(path)
            known = bool(requested.replaces) or check is not None or self._may_contain(*requested.key)
            held = self.manifest() if known else LakeManifest({})
            try:
                if check is not None:
                    check(held)
                commit, removed = m.next_commit(held, requested, staging.previous_state, seen or held)
                self._check_staged(staging, commit)
            except LakeError:
                self.folder.remove(staging.path)
                raise
            journal = {"commit": m.commit_to_json(commit), "staging": staging.path, "gone": removed}
            self.folder.write_json(path, journal)
            self._apply_journal(path, journal)
        return commit

    def _check_staged(self, staging: Staging, commit: Commit) -> None:
        for part in commit.parts:
            if not self.folder.exists(f"{staging.path}/{part.path}"):
                raise LakeError(f"{self.folder.absolute(staging.path, part.path)} was never written")

    def _finish_commit(self, path: str) -> bool:
        """Complete an interrupted commit; return whether there was one."""
        try:
            journal = self.folder.read_json(path)
        except FileNotFoundError:
            return False
        self._apply_journal(path, journal)
        return True

    def _apply_journal(self, path: str, journal: Any) -> None:
        try:
            commit, staging = m.commit_from_json(journal["commit"]), str(journal["staging"])
            removed = [m.checked_path(item) for item in journal["gone"]]
            if not staging.startswith(f"{STAGING}/") or ".." in staging:
                raise ValueError(f"{staging!r} is not a staging path")
        except (KeyError, TypeError, ValueError, LakeError) as error:
            raise LakeError(f"{self.folder.absolute(path)} is damaged: {error!r}") from None
        self._check_parts_available(path, commit, staging)
        for item in removed:
            self.folder.remove(item)
        staged = {f"{staging}/{part.path}": part.path for part in commit.parts}
        self.folder.move({source: path for source, path in staged.items() if self.folder.exists(source)})
        known = f"{COMMITS}/{commit.job}/{commit.batch}.json"
        self.folder.write_json(known, m.commit_to_json(commit))
        self._known.pop(known, None)  # file times are coarse: the new file may have the same stamp
        self.folder.remove(path)
        self.folder.remove(staging)

    def _check_parts_available(self, path: str, commit: Commit, staging: str) -> None:
        """Check that all new parts exist before anything is removed."""
        for part in commit.parts:
            if not self.folder.exists(f"{staging}/{part.path}") and not self.folder.exists(part.path):
                raise LakeError(
                    f"{self.folder.absolute(part.path)} is missing, so the commit "
                    f"{commit.job}/{commit.batch} cannot be "
                    f"completed: remove {self.folder.absolute(path)} and run the job again"
                )

    def commit_stamps(self, exclude: str) -> Mapping[str, FileStamp | None]:
        """Stamps by which a change by any other job than `exclude` is noticed without reading the manifest.

        Local disks only: elsewhere folders have no modification time.
        """
        names = [
            name for name in self.folder.list_names(COMMITS) if name != exclude and not name.startswith(".")
        ]
        return {name: self.folder.file_stamp(f"{COMMITS}/{name}") for name in names}

    def recover(self, job: str | None = None) -> int:
        """Complete interrupted commits and return their number. `job`: only of this job, while others run."""
        names = [name for name in self.folder.list_names(JOURNALS) if _is_journal(name)]
        with self._commit_lock():
            return sum(
                self._finish_commit(f"{JOURNALS}/{name}")
                for name in names
                if job is None or name.partition(JOURNAL_SEPARATOR)[0] == job
            )

    def remove_orphans(self, now: float) -> int:
        """Remove staged files without a writer; return the number of staging areas removed."""
        wanted = {
            self._staging_of(f"{JOURNALS}/{n}") for n in self.folder.list_names(JOURNALS) if _is_journal(n)
        }
        removed = 0
        for name in self.folder.list_names(STAGING):
            path = f"{STAGING}/{name}"
            changes = [changed for _, changed in self.folder.list_files(path).values()]
            changes.append((self.folder.file_stamp(path) or (0, 0.0))[1])
            if path not in wanted and max(changes) <= now - ORPHAN_SECONDS:
                self.folder.remove(path)
                removed += 1
        for folder in (COMMITS, JOURNALS):
            for path, (_, changed) in self.folder.list_files(folder).items():
                if "/." in path and changed <= now - ORPHAN_SECONDS:
                    self.folder.remove(path)
        return removed

    def _staging_of(self, path: str) -> str:
        try:
            return str(self.folder.read_json(path)["staging"])
        except FileNotFoundError:
            return ""
        except (KeyError, TypeError) as error:
            raise LakeError(f"{self.folder.absolute(path)} is damaged: {error!r}") from None

    def consolidate(self, chosen: Iterable[CommitKey] = (), dropped: Iterable[CommitKey] = ()) -> None:
        """Store these commits in one file instead of one each, without files that are no longer live. Commits
        of `dropped` without a live file are forgotten.
        """
        chosen, forgotten = set(chosen), set(dropped)
        with self._commit_lock():
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
