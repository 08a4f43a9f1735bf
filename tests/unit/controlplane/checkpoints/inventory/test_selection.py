"""Which contents are collected, within a budget."""

from __future__ import annotations

from controlplane.checkpoints.inventory import selection
from controlplane.checkpoints.inventory.model import FileEntry
from controlplane.checkpoints.inventory.selection import select_files


def files(*paths: str, size: int = 10) -> dict[str, FileEntry]:
    return {path: FileEntry(size) for path in paths}


def test_the_newest_batches_are_read_with_their_hidden_checksums_and_old_ones_are_not() -> None:
    entries = files(*(f"offsets/{n}" for n in range(50)), *(f"offsets/.{n}.crc" for n in range(50)))
    assert set(select_files(entries)) == {f"offsets/{n}" for n in (47, 48, 49)} | {
        f"offsets/.{n}.crc" for n in (47, 48, 49)
    }


def test_a_source_log_is_read_back_to_the_compaction_before_the_last() -> None:
    names = ["9.compact", "19.compact", *(str(n) for n in range(10, 19)), "20", "21", "3"]
    picked = select_files(files(*(f"sources/0/{name}" for name in names)))
    assert "sources/0/9.compact" in picked and "sources/0/10" in picked and "sources/0/3" not in picked


def test_every_store_gets_its_newest_files_before_any_gets_its_older_ones() -> None:
    entries = files(*(f"state/0/{p}/{v}.delta" for p in range(3) for v in range(1, 9)), size=100 << 10)
    assert set(select_files(entries)[:3]) <= {f"state/0/{p}/{v}.delta" for p in range(3) for v in (7, 8)}


def test_large_and_empty_files_are_not_read() -> None:
    entries = {
        "metadata": FileEntry(0),
        "commits/3": FileEntry(selection.MAX_FILE_BYTES + 1),
        "offsets/3": FileEntry(5),
    }
    assert select_files(entries) == ["offsets/3"]


def test_all_together_stays_below_the_budget() -> None:
    entries = files(*(f"state/0/{p}/{v}.delta" for p in range(200) for v in range(50)), size=4000)
    picked = select_files(entries)
    assert len(picked) <= selection.MAX_FILES
    assert sum(entries[path].size for path in picked) <= selection.MAX_TOTAL_BYTES
