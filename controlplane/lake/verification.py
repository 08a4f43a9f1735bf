"""Whether what a commit says is really in the lake: every file is there, has its size, and can be read to its end.

Called before anything leaves the store for the lake, by the server and by the job that moves. No Spark.
"""

from __future__ import annotations

import pyarrow.parquet as pq

from controlplane.errors import LakeError
from controlplane.lake.folders import LakeFolder
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit, LakeManifest, Part


def verify_commit(lake: Lake, commit: Commit, manifest: LakeManifest) -> int:
    """Read every file that holds the rows of this commit; how many rows. LakeError names the first that is damaged.

    Where another commit took the place of some of its files (small files made one), that commit's are read.
    """
    live_parts = {part.path for part, _ in manifest.live_parts.values()}
    wanted = {part.path: part for part in commit.parts if part.path in live_parts}
    gone = {part.path for part in commit.parts} - wanted.keys()
    for path in sorted(gone):
        wanted |= {part.path: part for part in _replacements(manifest, path, live_parts)}
    for part in wanted.values():
        verify_part(lake.folder, part)
    return commit.rows


def _replacements(manifest: LakeManifest, path: str, live_parts: set[str]) -> list[Part]:
    """The files that took a file's place, as they stand now."""
    table, day = path.split("/")[:2]
    heirs = [commit for commit in manifest.commits.values() if path in commit.replaces]
    if not heirs:
        raise LakeError(f"{path} is gone from the lake, and no commit says what took its place")
    newest = max(heirs, key=lambda commit: commit.at)
    found: list[Part] = []
    for part in newest.parts:
        if not part.path.startswith(f"{table}/{day}/"):
            continue
        found += [part] if part.path in live_parts else _replacements(manifest, part.path, live_parts)
    return found


def verify_part(folder: LakeFolder, part: Part) -> None:
    """Read one file to its end, a group of rows at a time. LakeError where it is not what the commit says."""
    try:
        with folder.fs.open(folder.absolute(part.path), "rb") as file:
            size = int(folder.fs.size(folder.absolute(part.path)))
            parquet = pq.ParquetFile(file)
            rows = sum(parquet.read_row_group(number).num_rows for number in range(parquet.num_row_groups))
    except Exception as error:  # of files, of Parquet, of any file system: nothing of it is to be trusted
        raise LakeError(f"{folder.absolute(part.path)} is damaged or missing: {_line(error)}") from None
    if (rows, size) != (part.rows, part.bytes):
        raise LakeError(
            f"{folder.absolute(part.path)} is damaged: {rows} rows in {size} bytes, the commit says"
            f" {part.rows} rows in {part.bytes} bytes"
        )


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
