"""The doctor's verdicts on damaged checkpoints of real queries, compared with the outcome of a restart on Spark."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import CheckpointReport, ReportStatus, RestartEffect
from controlplane.checkpoints.reading.checkpoint import KnownHistory
from controlplane.checkpoints.reading.versions import parse_version
from controlplane.checkpoints.survey import collect_survey
from tests.spark import goldens
from tests.spark.goldens import CHANGELOG, IDS, ROCKSDB, STORE, Golden, Inputs, Ran, run

pytestmark = [pytest.mark.spark, pytest.mark.long]

BATCHES = 5
PLAIN = Golden("plain", goldens.display_root)
COUNT = Golden("count", goldens.counted, "complete")
STORED = Golden("count in RocksDB", goldens.counted, "complete", conf=ROCKSDB)
LOGGED = Golden("count with changelogs", goldens.counted, "complete", conf=CHANGELOG)
NAMED = Golden("count with state ids", goldens.counted, "complete", conf=IDS)
SNAPSHOTS = {f"{STORE}minDeltasForSnapshot": "2"}
SHORT = Golden("count with snapshots", goldens.counted, "complete", conf={**CHANGELOG, **SNAPSHOTS})
SHORT_NAMED = Golden("count with snapshots and ids", goldens.counted, "complete", conf={**IDS, **SNAPSHOTS})
JOIN = Golden("join", goldens.joined)
DISTINCT = Golden("distinct", goldens.distinct)
FILES = Golden("files", goldens.display_root, sink="files")
GOLDENS = (PLAIN, COUNT, STORED, LOGGED, NAMED, SHORT, SHORT_NAMED, JOIN, DISTINCT, FILES)

Break = Callable[[Path], None]


# -- ways to break ---------------------------------------------------------------------------------


def lose(*patterns: str) -> Break:
    """Delete files or folders, each file with its hidden checksum."""

    def act(place: Path) -> None:
        found = [path for pattern in patterns for path in sorted(place.glob(pattern))]
        assert found, f"nothing to lose: {patterns}"
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
                (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    return act


def rewrite(pattern: str, change: Callable[[bytes], bytes]) -> Break:
    """Change a file's bytes; its hidden checksum goes, as after a copy that did not take it along."""

    def act(place: Path) -> None:
        (path,) = sorted(place.glob(pattern))[-1:]
        before = path.read_bytes()
        after = change(before)
        assert after != before
        path.write_bytes(after)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    return act


def lone(change: Callable[[bytes], bytes], also: str = "*.none") -> Break:
    """Change the newest snapshot and delete the older ones, and the files that `also` names."""

    def act(place: Path) -> None:
        store = place / "checkpoint/state/0/0"
        *older, newest = sorted(store.glob("*.zip"))
        newest.write_bytes(change(newest.read_bytes()))
        for path in [*older, *store.glob(also)]:
            path.unlink()
        for path in [newest, *older]:
            path.with_name(f"{path.name}.crc").unlink(missing_ok=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    return act


def cut(share: float) -> Callable[[bytes], bytes]:
    return lambda data: data[: int(len(data) * share)]


def replaced(what: str, by: str) -> Callable[[bytes], bytes]:
    return lambda data: re.sub(what.encode(), by.encode(), data, count=1)


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


def put(path: str, data: bytes = b"") -> Break:
    def act(place: Path) -> None:
        (place / path).write_bytes(data)

    return act


def copied(source: str, target: str) -> Break:
    def act(place: Path) -> None:
        if (place / source).is_dir():
            shutil.rmtree(place / target, ignore_errors=True)
            shutil.copytree(place / source, place / target)
        else:
            shutil.copy(place / source, place / target)

    return act


@dataclass(frozen=True)
class Breakage:
    name: str
    golden: Golden
    act: Break

    def __str__(self) -> str:
        return f"{self.golden.name}: {self.name}"


#: Each golden has batches 0…4, all committed; state versions 1…5.
BREAKAGES = (
    Breakage("nothing", PLAIN, lambda place: None),
    Breakage("metadata lost", PLAIN, lose("checkpoint/metadata")),
    Breakage("metadata cut", PLAIN, rewrite("checkpoint/metadata", cut(0.5))),
    Breakage("newest offsets cut", PLAIN, rewrite("checkpoint/offsets/4", cut(0.3))),
    Breakage("newest offsets lost", PLAIN, lose("checkpoint/offsets/4")),
    Breakage("offsets before the newest lost", PLAIN, lose("checkpoint/offsets/3")),
    Breakage("old offsets lost", PLAIN, lose("checkpoint/offsets/1")),
    Breakage("newest commit lost", PLAIN, lose("checkpoint/commits/4")),
    Breakage("all commits lost", PLAIN, lose("checkpoint/commits")),
    Breakage("newest commit cut", PLAIN, rewrite("checkpoint/commits/4", cut(0.5))),
    Breakage("a commit from nowhere", PLAIN, copied("checkpoint/commits/4", "checkpoint/commits/7")),
    Breakage("offsets from nowhere", PLAIN, copied("checkpoint/offsets/4", "checkpoint/offsets/8")),
    Breakage("a log version of the future", PLAIN, rewrite("checkpoint/offsets/4", replaced("v1", "v7"))),
    Breakage("a file left over", PLAIN, put("checkpoint/offsets/.9.b8f9.tmp", b"v1")),
    Breakage("newest log of the source lost", PLAIN, lose("checkpoint/sources/0/4")),
    Breakage("all logs of the source lost", PLAIN, lose("checkpoint/sources")),
    Breakage(
        "source offset set back",
        PLAIN,
        rewrite("checkpoint/offsets/4", replaced('logOffset":4', 'logOffset":2')),
    ),
    Breakage("newest delta lost", COUNT, lose("checkpoint/state/0/0/5.delta")),
    Breakage("newest delta cut", COUNT, rewrite("checkpoint/state/0/1/5.delta", cut(0.4))),
    Breakage("an older delta lost", COUNT, lose("checkpoint/state/0/0/2.delta")),
    Breakage("a partition lost", COUNT, lose("checkpoint/state/0/1")),
    Breakage("all state lost", COUNT, lose("checkpoint/state")),
    Breakage("the operator's metadata lost", COUNT, lose("checkpoint/state/0/_metadata")),
    Breakage("the schema of state cut", COUNT, rewrite("checkpoint/state/0/0/_metadata/schema", cut(0.5))),
    Breakage(
        "a delta of the future", COUNT, copied("checkpoint/state/0/0/5.delta", "checkpoint/state/0/0/6.delta")
    ),
    Breakage("newest offsets and commit lost", COUNT, lose("checkpoint/offsets/4", "checkpoint/commits/4")),
    Breakage("newest snapshot lost", STORED, lose("checkpoint/state/0/0/5.zip")),
    Breakage("newest snapshot cut", STORED, rewrite("checkpoint/state/0/1/5.zip", cut(0.5))),
    Breakage("a table lost", STORED, lose("checkpoint/state/0/0/SSTs/*.sst")),
    Breakage("newest changelog lost", LOGGED, lose("checkpoint/state/0/0/5.changelog")),
    Breakage("newest changelog damaged", LOGGED, rewrite("checkpoint/state/0/0/5.changelog", cut(0.3))),
    Breakage("changelog by id lost", NAMED, lose("checkpoint/state/0/0/5_*.changelog*")),
    *(
        breakage
        for golden in (SHORT, SHORT_NAMED)
        for breakage in (
            Breakage("all snapshots lost", golden, lose("checkpoint/state/0/0/*.zip*")),
            Breakage("newest snapshot cut", golden, rewrite("checkpoint/state/0/0/*.zip", cut(0.5))),
            Breakage("newest snapshot cut, the others lost", golden, lone(cut(0.5))),
            Breakage("newest snapshot cut, first changelog lost", golden, lone(cut(0.5), "1*.changelog*")),
        )
    ),
    Breakage("a store of one side lost", JOIN, lose("checkpoint/state/0/0/left-keyToNumValues")),
    Breakage(
        "newest delta of the other side cut",
        JOIN,
        rewrite("checkpoint/state/0/1/right-keyWithIndexToValue/5.delta", cut(0.2)),
    ),
    Breakage("dedup state lost", DISTINCT, lose("checkpoint/state/0/0")),
    Breakage("the sink's log ahead", FILES, copied("out/_spark_metadata/4", "out/_spark_metadata/5")),
    Breakage("the sink's log lost", FILES, lose("out/_spark_metadata")),
)


# -- the comparison --------------------------------------------------------------------------------


class Lab:
    """Goldens made once; a copy a breakage. What an undamaged copy gives is what each is held to."""

    def __init__(self, spark: Any, directory: Path):
        self.directory, self.inputs = directory, Inputs(spark, directory / "in")
        self.inputs.feed(BATCHES)
        self._before: dict[str, dict[int, Any]] = {}
        for golden in GOLDENS:
            place = directory / golden.name
            ran = run(self.inputs, golden, place / "checkpoint", place / "out")
            assert ran.error is None, ran.error
            self._before[golden.name] = ran.batches
        self.inputs.feed(2)
        self._whole: dict[str, Any] = {}

    def copy(self, golden: Golden, name: str) -> Path:
        place = self.directory / "copies" / re.sub(r"\W+", "-", f"{golden.name} {name}")
        shutil.copytree(self.directory / golden.name, place)
        return place

    def whole(self, golden: Golden) -> Any:
        if golden.name not in self._whole:
            place = self.copy(golden, "whole")
            self._whole[golden.name] = self.outcome(golden, place, self.restart(golden, place))
        return self._whole[golden.name]

    def restart(self, golden: Golden, place: Path) -> Ran:
        return run(self.inputs, golden, place / "checkpoint", place / "out")

    def outcome(self, golden: Golden, place: Path, ran: Ran) -> Any:
        """The rows of the sink. Where the sink knows the batch, a repeated batch replaces itself."""
        if golden.sink == "files":
            files = sorted((place / "out").glob("*.parquet"))
            return sorted(tuple(row) for row in self.inputs.spark.read.parquet(*map(str, files)).collect())
        held = Ran(None, {**self._before[golden.name], **ran.batches})
        return held.last if golden.mode == "complete" else held.rows

    def foretold(self, golden: Golden, place: Path) -> CheckpointReport:
        output = str(place / "out") if golden.sink == "files" else None
        inputs = [str(self.directory / "in" / name) for name in ("a", "b")]
        moved = [(str(self.directory / golden.name), str(place))]
        held = collect_survey(
            str(place / "checkpoint"), time.time(), output=output, inputs=inputs, relocations=moved
        )
        version = parse_version(self.inputs.spark.version)
        history = KnownHistory(stateful=golden not in (PLAIN, FILES))  # as a server knows from the reports
        return analyze(held.checkpoint, version, history=history, output=held.output, inputs=held.inputs)


@pytest.fixture(scope="module")
def lab(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(spark, tmp_path_factory.mktemp("breakages"))


@pytest.mark.parametrize("breakage", BREAKAGES, ids=str)
def test_the_doctors_prediction_is_what_spark_does(lab: Lab, breakage: Breakage) -> None:
    place = lab.copy(breakage.golden, breakage.name)
    breakage.act(place)
    verdict = lab.foretold(breakage.golden, place)
    result = [f"{finding.check}: {finding.message}" for finding in verdict.findings]
    whole = lab.whole(breakage.golden)
    ran = lab.restart(breakage.golden, place)
    if verdict.verdict is ReportStatus.BROKEN:
        assert ran.error is not None, result
        _named(verdict, ran.error)
        return
    assert ran.error is None, (result, ran.error[-1500:])
    same = lab.outcome(breakage.golden, place, ran) == whole
    assert same or verdict.verdict is ReportStatus.RISKY, result


def _named(verdict: CheckpointReport, error: str) -> None:
    """Where the doctor names Spark's condition, one of those named is in what Spark raised."""
    named = {finding.condition for finding in verdict.findings if finding.effect is RestartEffect.FAILS}
    named.discard("")
    assert not named or any(condition.split(".")[0] in error for condition in named), (named, error[-1500:])
