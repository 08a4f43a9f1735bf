"""Verify that the files of a commit are in the lake, have their recorded sizes and can be read to the end.

Called before events are deleted from the store, by the server and by the offload job. No Spark.
"""

from __future__ import annotations

import pyarrow.parquet as pq

from controlplane.errors import LakeError
from controlplane.lake.folders import LakeFolder
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit, LakeManifest, Part


def verify_commit(lake: Lake, commit: Commit, manifest: LakeManifest) -> int:
    """Read every file that holds the rows of this commit and return the number of its rows. LakeError names
    the first damaged file.

    Where another commit replaced some of the files (compaction), the files of that commit are read.
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
    """The live files that replaced a file."""
    table, day = path.split("/")[:2]
    heirs = [commit for commit in manifest.commits.values() if path in commit.replaces]
    if not heirs:
        raise LakeError(f"{path} is missing from the lake and no commit records its replacement")
    newest = max(heirs, key=lambda commit: commit.at)
    found: list[Part] = []
    for part in newest.parts:
        if not part.path.startswith(f"{table}/{day}/"):
            continue
        found += [part] if part.path in live_parts else _replacements(manifest, part.path, live_parts)
    return found


def verify_part(folder: LakeFolder, part: Part) -> None:
    """Read one file to its end, one row group at a time. LakeError where it differs from the commit."""
    try:
        with folder.fs.open(folder.absolute(part.path), "rb") as file:
            size = int(folder.fs.size(folder.absolute(part.path)))
            parquet = pq.ParquetFile(file)
            rows = sum(parquet.read_row_group(number).num_rows for number in range(parquet.num_row_groups))
    except Exception as error:  # errors of files, Parquet or any file system: the file cannot be trusted
        raise LakeError(f"{folder.absolute(part.path)} is damaged or missing: {_line(error)}") from None
    if (rows, size) != (part.rows, part.bytes):
        raise LakeError(
            f"{folder.absolute(part.path)} is damaged: {rows} rows in {size} bytes; the commit records"
            f" {part.rows} rows in {part.bytes} bytes"
        )


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
