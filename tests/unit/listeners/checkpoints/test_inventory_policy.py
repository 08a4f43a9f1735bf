"""Which files an inventory reads and which it may leave out."""

from listeners.checkpoints.inventory_policy import InventoryBudget, dispensable, select_contents

SIZES = {
    "metadata": 45,
    **{f"offsets/{n}": 600 for n in range(10)},
    **{f"commits/{n}": 30 for n in range(10)},
    **{f"sources/0/{n}": 100 for n in range(8)},
    "sources/0/9.compact": 1000,
    "state/0/_metadata/metadata": 200,
    **{f"state/0/{p}/{n}.delta": 80 for p in range(3) for n in range(1, 11)},
}


def test_logs_before_state_and_newest_first():
    picked = select_contents(SIZES, InventoryBudget())
    assert picked[:7] == [
        "metadata",
        "offsets/9",
        "offsets/8",
        "offsets/7",
        "commits/9",
        "commits/8",
        "commits/7",
    ]
    assert picked[7] == "state/0/_metadata/metadata"
    newest = [picked.index(f"state/0/{p}/10.delta") for p in range(3)]
    assert max(newest) < picked.index("state/0/0/8.delta")


def test_file_over_the_budget_does_not_block_smaller_ones():
    picked = select_contents(dict(SIZES, **{"offsets/9": 400_000}), InventoryBudget())
    assert "offsets/9" not in picked and "offsets/8" in picked
    few = select_contents(SIZES, InventoryBudget(bytes=700))
    assert few[:2] == ["metadata", "offsets/9"] and sum(SIZES[p] for p in few) <= 700
    assert len(select_contents(SIZES, InventoryBudget(files=5))) == 5


def test_empty_files_are_not_read():
    assert select_contents({"offsets/1": 0, "metadata": 0}, InventoryBudget()) == []


def test_files_before_the_last_three_snapshots_are_dispensable():
    names = [f"{n}.delta" for n in range(1, 41)] + [f".{n}.delta.crc" for n in range(1, 41)]
    names += [f"{n}.snapshot" for n in (10, 20, 30, 40)] + ["_metadata", "SSTs"]
    spared = dispensable("state/0/7", names)
    assert spared == {
        n for n in names if n.lstrip(".").split(".")[0].isdigit() and int(n.lstrip(".").split(".")[0]) < 20
    }


def test_store_with_few_snapshots_and_other_folders_keep_all_files():
    assert (
        dispensable("state/0/7", [f"{n}.delta" for n in range(500)] + ["9.snapshot", "19.snapshot"]) == set()
    )
    assert dispensable("offsets", [str(n) for n in range(500)]) == set()


def test_files_of_format_two_are_ordered_by_version():
    names = [f"{n}_abc-{n}.zip" for n in (10, 20, 30, 40)] + [f"{n}_abc-{n}.changelog" for n in range(41)]
    assert dispensable("state/0/0", names) == {n for n in names if int(n.split("_")[0]) < 20}
