"""The lake as a whole: opened, written to in commits, mended after a crash.

A commit: parts are written to `_staging`, a journal says what is about to be, each part is moved to its name, what is
replaced goes, the manifest says so, the journal goes. A crash at any moment leaves a journal that the next opening
carries on, or staged files that nobody knows of. Whoever reads by a glob sees each part whole, never twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from controlplane.errors import LakeError
from controlplane.lake import manifest as m
from controlplane.lake.folders import Folder
from controlplane.lake.manifest import Commit, Manifest, Part
from controlplane.lake.schema import FORMAT, TABLES, VERSION, arrow

HEAD, COMMITS, JOURNAL, STAGING = "lake.json", "_manifest", "_journal", "_staging"
BASE = "base.json"
#: Staged files that no journal names are swept away after so long: nobody writes them any more.
FORGOTTEN_SECONDS = 24 * 3600.0
ROW_GROUP = 128 * 1024


@dataclass(frozen=True)
class Staging:
    """Where the parts of one commit are written before it; can be sent to executors."""

    folder: Folder
    job: str
    batch: str
    path: str

    def write(self, table: str, rows: pa.Table, part: str) -> list[Part]:
        """Write rows of a table, a file a day, sorted. `part`: told apart from all others of this commit."""
        spec = TABLES[table]
        if not rows.num_rows:
            return []
        days = pc.cast(pc.floor_temporal(rows[spec.dated_by], unit="day"), pa.date32())
        rows = rows.select(list(spec.names)).cast(arrow(table))
        found = pc.unique(days).drop_null().to_pylist()
        whole = len(found) == 1 and not days.null_count
        return [
            self._write_day(table, day, rows if whole else rows.filter(pc.equal(days, day)), part)
            for day in sorted(found)
        ]

    def _write_day(self, table: str, day: date, rows: pa.Table, part: str) -> Part:
        rows = rows.sort_by([(name, "ascending") for name in TABLES[table].order])
        name = f"{table}/date={day.isoformat()}/{self.job}-{self.batch}-{part}.parquet"
        target = self.folder.at(self.path, name)
        self.folder.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        with self.folder.fs.open(target, "wb") as file:
            pq.write_table(rows, file, compression="zstd", row_group_size=ROW_GROUP)
        self.folder.settle(target)
        return Part(table, day, name, rows.num_rows, int(self.folder.fs.size(target)))


class Lake:
    """Opened by `Lake.open`; one job writes to it by `stage` and `commit`, any number of jobs at once."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self._known: dict[str, tuple[tuple[int, float], Commit]] = {}

    @staticmethod
    def open(url: str, create: bool = False) -> Lake:
        """LakeError where there is none (unless it is to be created), or one that is newer than we are."""
        folder = Folder(url)
        lake = Lake(folder)
        try:
            if not folder.exists(HEAD):
                if not create:
                    raise LakeError(f"there is no lake at {folder}: {HEAD} is missing")
                if set(folder.names("")) & TABLES.keys():
                    raise LakeError(f"{folder} has folders of a lake but no {HEAD}: take an empty folder")
                head = {"format": FORMAT, "version": VERSION, "created_at": time.time()}
                folder.write_json(HEAD, head)
            head = folder.read_json(HEAD)
        except OSError as error:
            raise LakeError(f"the lake at {folder} cannot be opened: {error}") from None
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise LakeError(f"{folder.at(HEAD)} is not the head of a lake of ours")
        version = head.get("version")
        if version != VERSION:
            raise LakeError(
                f"the lake at {folder} has version {version}, this release reads version {VERSION}"
            )
        return lake

    # -- reading ---------------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        """What the lake holds now. Commits that were read before and did not change are not read again."""
        found, known = self.folder.below(COMMITS), {}
        commits: dict[tuple[str, str], Commit] = {}
        base = found.pop(f"{COMMITS}/{BASE}", None)
        if base is not None:
            commits |= {one.key: one for one in m.unfolded(self.folder.read_json(f"{COMMITS}/{BASE}"))}
        for path, stamp in sorted(found.items()):
            if not path.endswith(".json") or "/." in path:
                continue
            held = self._known.get(path)
            if held is None or held[0] != stamp:
                try:
                    held = stamp, m.from_json(self.folder.read_json(path))
                except FileNotFoundError:  # folded meanwhile
                    return self.manifest()
            known[path] = held
            commits[held[1].key] = held[1]
        self._known = known
        return Manifest(commits)

    def read(
        self,
        table: str,
        first: date | None = None,
        last: date | None = None,
        columns: Sequence[str] | None = None,
        where: ds.Expression | None = None,
    ) -> pa.Table:
        """Rows of a table, by the manifest. Columns that older files lack are null."""
        chosen = (
            arrow(table) if columns is None else pa.schema([arrow(table).field(name) for name in columns])
        )
        paths = [self.folder.at(part.path) for part in self.manifest().parts(table, first, last)]
        if not paths:
            return chosen.empty_table()
        data = ds.dataset(paths, schema=arrow(table), format="parquet", filesystem=self.folder.fs)
        return data.to_table(columns=list(chosen.names), filter=where)

    def paths(self, table: str, first: date | None = None, last: date | None = None) -> list[str]:
        """The files of a table, as Spark finds them."""
        return [f"{self.folder.for_spark}/{part.path}" for part in self.manifest().parts(table, first, last)]

    # -- writing ---------------------------------------------------------------------------------

    def stage(self, job: str, batch: str) -> Staging:
        """A place for the parts of a commit."""
        name = f"{m.name_of(job)}-{m.name_of(batch)}-{uuid.uuid4().hex[:8]}"
        return Staging(self.folder, job, batch, f"{STAGING}/{name}")

    def commit(
        self,
        staging: Staging,
        parts: Iterable[Part],
        facts: Mapping[str, Any] | None = None,
        replaces: Iterable[str] = (),
    ) -> Commit:
        """Put staged parts into the lake, instead of what the same batch of the same job put there before."""
        commit = Commit(
            staging.job, staging.batch, time.time(), tuple(parts), tuple(replaces), dict(facts or {})
        )
        before = self._committed(commit.job, commit.batch)
        kept = {part.path for part in commit.parts}
        gone = {part.path for part in before.parts} - kept if before else set()
        journal = {
            "commit": m.to_json(commit),
            "staging": staging.path,
            "gone": sorted(gone | set(commit.replaces) - kept),
        }
        path = f"{JOURNAL}/{commit.job}-{commit.batch}.json"
        self.folder.write_json(path, journal)
        self._carry_out(path, journal)
        return commit

    def _committed(self, job: str, batch: str) -> Commit | None:
        path = f"{COMMITS}/{job}/{batch}.json"
        if self.folder.exists(path):
            return m.from_json(self.folder.read_json(path))
        if not self.folder.exists(f"{COMMITS}/{BASE}"):
            return None
        return {c.key: c for c in m.unfolded(self.folder.read_json(f"{COMMITS}/{BASE}"))}.get((job, batch))

    def _carry_out(self, path: str, journal: Mapping[str, Any]) -> None:
        commit, staging = m.from_json(journal["commit"]), str(journal["staging"])
        for part in commit.parts:
            if self.folder.exists(f"{staging}/{part.path}"):
                self.folder.move(f"{staging}/{part.path}", part.path)
            elif not self.folder.exists(part.path):
                raise LakeError(
                    f"{self.folder.at(part.path)} is lost: the commit {commit.job}/{commit.batch} cannot be "
                    f"finished; remove {self.folder.at(path)} and run the job again"
                )
        for one in journal["gone"]:
            self.folder.remove(one)
        self.folder.write_json(f"{COMMITS}/{commit.job}/{commit.batch}.json", m.to_json(commit))
        self.folder.remove(path)
        self.folder.remove(staging)

    def recover(self, job: str | None = None) -> int:
        """Finish commits that a crash cut off; how many. `job`: only of this one, when others are at work."""
        done = 0
        for name in self.folder.names(JOURNAL):
            if name.startswith(".") or not name.endswith(".json"):
                continue
            path = f"{JOURNAL}/{name}"
            journal = self.folder.read_json(path)
            if job is None or journal["commit"]["job"] == job:
                self._carry_out(path, journal)
                done += 1
        return done

    def sweep(self, now: float) -> int:
        """Remove staged files that nobody writes any more; how many commits' worth."""
        journals = (
            self.folder.read_json(f"{JOURNAL}/{n}") for n in self.folder.names(JOURNAL) if n[0] != "."
        )
        wanted = {str(journal["staging"]) for journal in journals}
        gone = 0
        for name in self.folder.names(STAGING):
            files = self.folder.below(f"{STAGING}/{name}").values()
            young = any(changed > now - FORGOTTEN_SECONDS for _, changed in files)
            if f"{STAGING}/{name}" not in wanted and not young:
                self.folder.remove(f"{STAGING}/{name}")
                gone += 1
        return gone

    def fold(self, folded: Iterable[tuple[str, str]]) -> None:
        """Keep these commits in one file instead of one each. Nobody else folds meanwhile (`Folder.held`)."""
        commits, chosen = self.manifest().commits, set(folded)
        based = self.folder.exists(f"{COMMITS}/{BASE}")
        before = m.unfolded(self.folder.read_json(f"{COMMITS}/{BASE}")) if based else []
        kept = {one.key: one for one in before} | {key: commits[key] for key in chosen if key in commits}
        self.folder.write_json(f"{COMMITS}/{BASE}", m.folded(kept.values()))
        for job, batch in chosen:
            self.folder.remove(f"{COMMITS}/{job}/{batch}.json")
