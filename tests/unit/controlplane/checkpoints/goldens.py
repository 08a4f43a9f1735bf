"""Healthy checkpoints of real Spark as inventories, and the damage that is done to them in memory."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from controlplane.checkpoints.inventory.model import FileEntry, Inventory
from controlplane.checkpoints.survey import Survey, collect_survey
from tests.checkpoint_cases import Case, cases, unpack

#: Name → the case whose checkpoint is whole (what was done to it touched nothing that is kept here).
GOLDENS = {
    "files": "offset-tmp-leftover",
    "files12": "sink-metadata-compact-missing",
    "agg": "state-tmp-leftover",
    "rocks": "diskfull-agg_rocks",
    "rockscl": "kill9-mid-batch-agg_rockscl",
    "v2": "v2-snapshot-bitflip",
    "join": "join-watermark-policy-edited",
    "dedup": "dedup-baseline-ok",
    "tws": "tws-operator-metadata-missing",
    "union": "sources-offset-line-extra",
    "foreachbatch": "foreachbatch-commit-missing-duplicates",
    "v2log": "v2log-line-no-colon",
}
COLLECTED_AT = 1_795_160_000.0
Step = Callable[[Inventory], Inventory]


@lru_cache(maxsize=1)
def _unpacked() -> dict[str, Case]:
    folder = Path(tempfile.mkdtemp(prefix="goldens-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    names = [name + suffix for name in GOLDENS.values() for suffix in ("", "__35")]
    unpack(folder, only=names)
    return {case.name: case for case in cases(folder)}


@lru_cache(maxsize=64)
def golden(name: str, spark: str = "4.3.0") -> Survey:
    """The survey of a healthy checkpoint that `spark` wrote. KeyError where that version has none."""
    case = _unpacked()[GOLDENS[name] + ("__35" if spark.startswith("3.5") else "")]
    held = collect_survey(
        case.checkpoint,
        COLLECTED_AT,
        output=case.output,
        inputs=case.inputs,
        relocations=case.relocations,
    )
    whole = held.checkpoint
    for step in REPAIRS.get(name, ()):
        whole = step(whole)
    # The output of this one was damaged; its checkpoint was not.
    return replace(held, checkpoint=whole, output=None if name == "files12" else held.output)


def lose(*paths: str) -> Step:
    """Take away files with their checksum files, or folders with all that is in them."""

    def step(inventory: Inventory) -> Inventory:
        found = {p for p in inventory.entries for gone in paths if p == gone or p.startswith(gone + "/")}
        assert found, f"nothing at {paths}"
        found |= {f"{folder}{slash}.{name}.crc" for folder, slash, name in (p.rpartition("/") for p in found)}
        entries = {path: entry for path, entry in inventory.entries.items() if path not in found}
        contents = {path: data for path, data in inventory.contents.items() if path not in found}
        return replace(inventory, entries=entries, contents=contents)

    return step


def keep_sum(path: str) -> Step:
    """Take away a file and leave its checksum file, as `rm` does."""

    def step(inventory: Inventory) -> Inventory:
        folder, slash, name = path.rpartition("/")
        hidden = f"{folder}{slash}.{name}.crc"
        kept = inventory.entries[hidden]
        gone = lose(path)(inventory)
        return replace(gone, entries={**gone.entries, hidden: kept})

    return step


def put(path: str, content: bytes) -> Step:
    def step(inventory: Inventory) -> Inventory:
        entries = {**inventory.entries, path: FileEntry(len(content), COLLECTED_AT)}
        return replace(inventory, entries=entries, contents={**inventory.contents, path: content})

    return step


def folder(path: str) -> Step:
    def step(inventory: Inventory) -> Inventory:
        return replace(
            inventory, entries={**inventory.entries, path: FileEntry(0, COLLECTED_AT, folder=True)}
        )

    return step


def change(path: str, how: Callable[[bytes], bytes]) -> Step:
    return lambda inventory: put(path, how(inventory.contents[path]))(inventory)


def cut(path: str, share: float) -> Step:
    return change(path, lambda data: data[: int(len(data) * share)])


def empty(path: str) -> Step:
    return put(path, b"")


def edit(path: str, old: str, new: str) -> Step:
    def how(data: bytes) -> bytes:
        assert old.encode() in data
        return data.replace(old.encode(), new.encode())

    return change(path, how)


def flip(path: str, share: float = 0.5) -> Step:
    """Turn eight bytes over."""

    def how(data: bytes) -> bytes:
        at = int(len(data) * share)
        return data[:at] + bytes(byte ^ 0xFF for byte in data[at : at + 8]) + data[at + 8 :]

    return change(path, how)


def copy(source: str, target: str) -> Step:
    return lambda inventory: put(target, inventory.contents[source])(inventory)


def pin(path: str, key: str, value: str) -> Step:
    """Set a setting in an entry of the offset log."""

    def how(data: bytes) -> bytes:
        lines = data.decode().split("\n")
        held = json.loads(lines[1])
        held["conf"][key] = value
        return "\n".join([lines[0], json.dumps(held), *lines[2:]]).encode()

    return change(path, how)


def without_line(path: str, number: int) -> Step:
    return change(path, lambda data: b"\n".join(x for i, x in enumerate(data.split(b"\n")) if i != number))


def _schema_again(inventory: Inventory) -> Inventory:
    """The operator metadata that the case lost, reported anew from its schema file."""
    path = next(p for p in inventory.entries if "_stateSchema/default/" in p and "/." not in p)
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 2,
        "stateSchemaFilePaths": [f"file:/old-place/{path}"],
    }
    info = {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"}
    text = "v2\n" + json.dumps({"operatorInfo": info, "stateStoreInfo": [store]})
    return put("state/0/_metadata/v2/0", text.encode())(inventory)


def _good_zip(inventory: Inventory) -> Inventory:
    """The case's zip of partition 0 was damaged; that of partition 1 has the same layout, but not its SSTs."""
    gone = [p for p in inventory.entries if p.startswith("state/0/0/2_") and ".zip" in p]
    return lose(*gone)(inventory)


def _last_line_again(inventory: Inventory) -> Inventory:
    return without_line("offsets/3", -1)(
        change("offsets/3", lambda data: data.rpartition(b"\n")[0])(inventory)
    )


#: What makes the case's checkpoint whole again.
REPAIRS: dict[str, tuple[Step, ...]] = {
    "tws": (_schema_again,),
    "v2": (_good_zip,),
    "join": (pin("offsets/4", "spark.sql.streaming.multipleWatermarkPolicy", "min"),),
    "union": (_last_line_again,),
    "foreachbatch": (put("commits/3", b'v1\n{"nextBatchWatermarkMs":0}'),),
    "v2log": (change("offsets/2", lambda data: data.replace(b"\ngarbage", b'\n0:{"logOffset":2}')),),
}
