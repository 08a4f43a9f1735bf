"""Every kind of damage of the laboratory, done to healthy checkpoints in memory, and what Spark made of it.

A row: the checkpoint, the damage, and the verdict on Spark 4.3.0 and 3.5.9 as observed (`-`: not for that version).
"""

from __future__ import annotations

import pytest

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import CheckpointReport
from controlplane.checkpoints.reading.versions import parse_version
from tests.unit.controlplane.checkpoints.goldens import (
    Step,
    change,
    copy,
    cut,
    edit,
    empty,
    flip,
    folder,
    golden,
    keep_sum,
    lose,
    pin,
    put,
    without_line,
)

STREAMING = "spark.sql.streaming."
OK, RISKY, BROKEN = "ok", "risky", "broken"

Row = tuple[str, str, list[Step], str, str]

LOGS: list[Row] = [
    ("files", "nothing", [], OK, OK),
    ("files", "commit removed, its crc kept", [keep_sum("commits/4")], BROKEN, "-"),
    ("files", "both removed, crc kept", [keep_sum("offsets/4"), keep_sum("commits/4")], BROKEN, "-"),
    ("files", "old entries removed, crc kept", [keep_sum("offsets/0"), keep_sum("commits/0")], OK, "-"),
    ("files", "offset latest missing", [lose("offsets/4")], BROKEN, BROKEN),
    ("files", "offset second latest missing", [lose("offsets/3")], BROKEN, BROKEN),
    ("files", "the same in flight", [lose("offsets/3", "commits/4")], BROKEN, BROKEN),
    ("files", "offset earlier missing", [lose("offsets/1")], OK, OK),
    ("files", "offsets all missing", [lose("offsets")], BROKEN, BROKEN),
    ("files", "offset latest empty", [empty("offsets/4")], BROKEN, BROKEN),
    ("files", "the same uncommitted", [empty("offsets/4"), lose("commits/4")], BROKEN, BROKEN),
    ("files", "offset cut in its metadata", [cut("offsets/4", 0.5)], BROKEN, BROKEN),
    ("files", "offset with a version only", [put("offsets/4", b"v1\n")], BROKEN, BROKEN),
    ("files", "offset without a source line", [without_line("offsets/4", 2)], BROKEN, BROKEN),
    ("files", "offset with a torn line", [change("offsets/4", lambda d: d[:-6])], BROKEN, BROKEN),
    (
        "files",
        "offset changed, crc kept",
        [edit("offsets/4", '"logOffset":4', '"logOffset":3')],
        RISKY,
        RISKY,
    ),
    ("files", "previous offset empty", [empty("offsets/3")], BROKEN, BROKEN),
    ("files", "offset of version 99", [edit("offsets/4", "v1\n", "v99\n")], BROKEN, BROKEN),
    ("files", "offset of version hello", [edit("offsets/4", "v1\n", "hello\n")], BROKEN, BROKEN),
    ("files", "a stray offset far ahead", [copy("offsets/4", "offsets/9")], BROKEN, BROKEN),
    (
        "files",
        "two stray offsets",
        [
            *(put(f"offsets/{n}", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":%d}' % n) for n in (5, 6)),
        ],
        BROKEN,
        BROKEN,
    ),
    ("files", "a folder as next batch", [folder("offsets/5")], BROKEN, BROKEN),
    ("files", "a folder as next commit", [folder("commits/5")], BROKEN, BROKEN),
    (
        "files",
        "a folder as an old batch",
        [folder("offsets/1x"), lose("offsets/0"), folder("offsets/0")],
        OK,
        OK,
    ),
    (
        "files",
        "offset goes backwards",
        [edit("offsets/4", '"logOffset":4', '"logOffset":2'), lose("offsets/.4.crc")],
        BROKEN,
        BROKEN,
    ),
    (
        "files",
        "void source",
        [edit("offsets/4", '{"logOffset":4}', "-"), lose("offsets/.4.crc")],
        RISKY,
        RISKY,
    ),
    (
        "files",
        "blank metadata",
        [change("offsets/4", lambda d: b"v1\n\n" + d.rpartition(b"\n")[2])],
        BROKEN,
        BROKEN,
    ),
    ("files", "commit latest missing", [lose("commits/4")], OK, OK),
    ("files", "two commits missing", [lose("commits/4", "commits/3")], OK, OK),
    ("files", "no commits", [lose("commits")], OK, OK),
    ("files", "commit latest empty", [empty("commits/4")], BROKEN, BROKEN),
    ("files", "commit torn", [cut("commits/4", 0.5)], BROKEN, BROKEN),
    ("files", "commit with a version only", [put("commits/4", b"v1"), lose("commits/.4.crc")], OK, OK),
    ("files", "commit changed, crc kept", [edit("commits/4", ":0", ":7")], OK, OK),
    ("files", "commit ahead by one", [copy("commits/4", "commits/5")], BROKEN, BROKEN),
    ("files", "metadata missing", [lose("metadata")], BROKEN, OK),
    ("files", "metadata empty", [empty("metadata")], BROKEN, BROKEN),
    ("files", "metadata torn", [cut("metadata", 0.6)], BROKEN, BROKEN),
    (
        "files",
        "metadata changed, crc kept",
        [put("metadata", b'{"id":"91114909-69d1-4a94-8227-4db0da639e89"}')],
        OK,
        OK,
    ),
    ("files", "metadata without a uuid", [put("metadata", b'{"id":"hello"}')], BROKEN, BROKEN),
    ("files", "no logs, sources kept", [lose("offsets", "commits")], RISKY, RISKY),
    (
        "files",
        "rewound, sources too",
        [lose(*(f"{log}/{n}" for log in ("offsets", "commits", "sources/0") for n in (3, 4)))],
        OK,
        OK,
    ),
    (
        "files",
        "rewound, sources kept",
        [lose(*(f"{log}/{n}" for log in ("offsets", "commits") for n in (3, 4)))],
        RISKY,
        RISKY,
    ),
    ("files", "only commits left", [lose("offsets", "sources", "metadata")], BROKEN, BROKEN),
    ("agg", "no logs, state kept", [lose("offsets", "commits", "sources")], BROKEN, RISKY),
]
SOURCES: list[Row] = [
    ("files", "source log latest missing", [lose("sources/0/4")], BROKEN, BROKEN),
    ("files", "the same in flight", [lose("sources/0/4", "commits/4")], BROKEN, BROKEN),
    ("files", "source log earlier missing", [lose("sources/0/1")], BROKEN, BROKEN),
    ("files", "source log latest empty", [empty("sources/0/4")], BROKEN, BROKEN),
    ("files", "source log torn", [cut("sources/0/4", 0.7)], BROKEN, BROKEN),
    ("files", "source log folder missing", [lose("sources")], BROKEN, BROKEN),
    ("files", "source log ahead", [copy("sources/0/4", "sources/0/5")], OK, OK),
    ("files12", "source compaction missing", [lose("sources/0/9.compact")], BROKEN, BROKEN),
    ("files12", "source compaction torn", [cut("sources/0/9.compact", 0.6)], BROKEN, BROKEN),
    ("files12", "source compaction empty", [empty("sources/0/9.compact")], BROKEN, BROKEN),
    ("files12", "before the compaction missing", [lose(*(f"sources/0/{n}" for n in range(9)))], OK, OK),
    ("union", "nothing", [], OK, OK),
    ("union", "a line lost", [without_line("offsets/3", 3)], BROKEN, BROKEN),
    ("union", "a source log lost", [lose("sources/1")], BROKEN, BROKEN),
    ("v2log", "nothing", [], OK, "-"),
    ("v2log", "a line lost", [without_line("offsets/2", 3)], RISKY, "-"),
    (
        "v2log",
        "blank metadata",
        [change("offsets/2", lambda d: b"v2\n\n" + d.split(b"\n", 2)[2])],
        BROKEN,
        "-",
    ),
]
HDFS: list[Row] = [
    ("agg", "nothing", [], OK, OK),
    ("agg", "latest delta missing", [lose("state/0/0/5.delta")], BROKEN, BROKEN),
    ("agg", "first delta missing", [lose("state/0/0/1.delta")], BROKEN, BROKEN),
    ("agg", "middle delta missing", [lose("state/0/0/2.delta")], BROKEN, BROKEN),
    (
        "agg",
        "deltas before a snapshot missing",
        [copy("state/0/0/3.delta", "state/0/0/3.snapshot"), lose("state/0/0/1.delta", "state/0/0/2.delta")],
        OK,
        OK,
    ),
    (
        "agg",
        "snapshot truncated, deltas kept",
        [copy("state/0/0/3.delta", "state/0/0/3.snapshot"), cut("state/0/0/3.snapshot", 0.4)],
        OK,
        BROKEN,
    ),
    (
        "agg",
        "snapshot empty, deltas purged",
        [empty("state/0/0/3.snapshot"), lose("state/0/0/1.delta", "state/0/0/2.delta")],
        BROKEN,
        BROKEN,
    ),
    ("agg", "delta truncated", [cut("state/0/0/5.delta", 0.6)], BROKEN, BROKEN),
    ("agg", "delta with bits flipped", [flip("state/0/0/5.delta", 0.4)], BROKEN, BROKEN),
    ("agg", "delta without its end block", [change("state/0/0/5.delta", lambda d: d[:-21])], OK, OK),
    ("agg", "partition missing", [lose("state/0/1")], BROKEN, BROKEN),
    ("agg", "first partition missing", [lose("state/0/0")], BROKEN, BROKEN),
    ("agg", "operator missing", [lose("state/0"), folder("state")], BROKEN, BROKEN),
    ("agg", "state of the next version there", [copy("state/0/0/5.delta", "state/0/0/6.delta")], OK, OK),
    ("agg", "operator metadata torn", [cut("state/0/_metadata/metadata", 0.5)], OK, "-"),
    ("agg", "operator metadata missing", [lose("state/0/_metadata")], OK, "-"),
    (
        "agg",
        "operator metadata of another operator",
        [edit("state/0/_metadata/metadata", "stateStoreSave", "dedupe")],
        BROKEN,
        "-",
    ),
    (
        "dedup",
        "operator metadata of another operator",
        [edit("state/0/_metadata/metadata", "dedupe", "stateStoreSave")],
        BROKEN,
        "-",
    ),
    (
        "dedup",
        "rewound, newer state removed, the sink's log kept",
        [
            lose(*(f"{log}/{n}" for log in ("offsets", "commits", "sources/0") for n in (2, 3))),
            lose(*(f"state/0/{p}/{n}.delta" for p in (0, 1) for n in (3, 4))),
        ],
        BROKEN,
        BROKEN,
    ),
    ("agg", "schema empty", [empty("state/0/0/_metadata/schema")], BROKEN, BROKEN),
    ("agg", "schema torn", [cut("state/0/0/_metadata/schema", 0.5)], BROKEN, BROKEN),
    ("agg", "schema missing", [lose("state/0/0/_metadata/schema")], OK, OK),
    ("agg", "partitions pinned up", [pin("offsets/4", "spark.sql.shuffle.partitions", "4")], BROKEN, BROKEN),
    ("agg", "partitions pinned down", [pin("offsets/4", "spark.sql.shuffle.partitions", "1")], RISKY, RISKY),
    (
        "agg",
        "another codec pinned",
        [pin("offsets/4", STREAMING + "stateStore.compression.codec", "zstd")],
        BROKEN,
        BROKEN,
    ),
    (
        "agg",
        "another aggregation format pinned",
        [pin("offsets/4", STREAMING + "aggregation.stateFormatVersion", "1")],
        BROKEN,
        BROKEN,
    ),
    (
        "agg",
        "a provider that is gone",
        [pin("offsets/4", STREAMING + "stateStore.providerClass", "com.acme.Gone")],
        BROKEN,
        BROKEN,
    ),
    (
        "join",
        "an unknown watermark policy",
        [pin("offsets/4", STREAMING + "multipleWatermarkPolicy", "median")],
        BROKEN,
        BROKEN,
    ),
    (
        "agg",
        "a refused repartition left its batch",
        [copy("offsets/4", "offsets/5"), pin("offsets/5", "spark.sql.shuffle.partitions", "4")],
        BROKEN,
        BROKEN,
    ),
    (
        "agg",
        "state of two partitions alike",
        [copy(f"state/0/1/{n}.delta", f"state/0/0/{n}.delta") for n in range(1, 6)],
        RISKY,
        RISKY,
    ),
    (
        "agg",
        "settings missing",
        [put("offsets/4", b'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"logOffset":4}')],
        BROKEN,
        BROKEN,
    ),
    (
        "files",
        "settings missing",
        [put("offsets/4", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":4}'), lose("offsets/.4.crc")],
        OK,
        OK,
    ),
    ("join", "nothing", [], OK, OK),
    ("join", "a store lost", [lose("state/0/0/left-keyToNumValues")], BROKEN, BROKEN),
    ("join", "a delta of one store lost", [lose("state/0/1/right-keyToNumValues/5.delta")], BROKEN, BROKEN),
    ("dedup", "nothing", [], OK, OK),
    (
        "dedup",
        "another aggregation format",
        [pin("offsets/3", STREAMING + "aggregation.stateFormatVersion", "1"), lose("offsets/.3.crc")],
        OK,
        OK,
    ),
    ("foreachbatch", "nothing", [], OK, OK),
    ("foreachbatch", "commit missing", [lose("commits/3")], RISKY, RISKY),
    ("foreachbatch", "two commits missing", [lose("commits/3", "commits/2")], RISKY, RISKY),
    ("foreachbatch", "offset missing", [lose("offsets/3")], BROKEN, BROKEN),
]
SST = {
    "4.3.0": "state/0/0/SSTs/000008-869e48b9-4ccf-466e-bf60-e014a3d8feea.sst",
    "3.5.9": "state/0/0/SSTs/000008-cc97b8a6-22a1-4f38-9ada-35949d80f3c0.sst",
}
A4 = "state/0/0/4_a3f65030-1870-44f7-a7a9-a263319a3c41.changelog"
ROCKSDB: list[Row] = [
    ("rocks", "nothing", [], OK, OK),
    ("rocks", "latest zip missing", [lose("state/0/0/3.zip")], BROKEN, BROKEN),
    ("rocks", "earlier zip missing", [lose("state/0/0/1.zip")], OK, OK),
    ("rocks", "zip empty", [empty("state/0/0/3.zip")], BROKEN, BROKEN),
    ("rocks", "zip truncated", [cut("state/0/0/3.zip", 0.6)], BROKEN, BROKEN),
    ("rocks", "zip with bits flipped", [flip("state/0/0/3.zip")], BROKEN, BROKEN),
    ("rocks", "SSTs missing", [lose("state/0/0/SSTs")], BROKEN, BROKEN),
    ("rocks", "an SST missing", [lose(SST["4.3.0"])], BROKEN, "-"),
    ("rocks", "an SST missing (3.5)", [lose(SST["3.5.9"])], "-", BROKEN),
    ("rocks", "an SST truncated", [cut(SST["4.3.0"], 0.5)], BROKEN, "-"),
    ("rocks", "a data block flipped", [flip(SST["4.3.0"], 0.02)], BROKEN, "-"),
    ("rocks", "a data block flipped (3.5)", [flip(SST["3.5.9"], 0.02)], "-", BROKEN),
    ("rocks", "an orphan SST", [copy(SST["4.3.0"], "state/0/0/SSTs/000099-x.sst")], OK, "-"),
    ("rocks", "partition missing", [lose("state/0/1")], BROKEN, BROKEN),
    ("rockscl", "nothing", [], OK, OK),
    ("rockscl", "latest changelog missing", [lose("state/0/0/4.changelog")], BROKEN, BROKEN),
    ("rockscl", "middle changelog missing", [lose("state/0/0/2.changelog")], BROKEN, BROKEN),
    ("rockscl", "changelog truncated", [cut("state/0/0/4.changelog", 0.6)], BROKEN, BROKEN),
    ("rockscl", "a broken zip, changelogs kept", [put("state/0/0/3.zip", b"PK")], OK, BROKEN),
    ("v2", "nothing", [], OK, "-"),
    ("v2", "latest changelog missing", [lose(A4)], BROKEN, "-"),
    ("v2", "changelog flipped", [flip(A4)], BROKEN, "-"),
    ("v2", "checksum file missing", [lose(A4 + ".crc")], OK, "-"),
    ("v2", "checksum file torn", [cut(A4 + ".crc", 0.5)], BROKEN, "-"),
    ("v2", "checksum file empty", [empty(A4 + ".crc")], BROKEN, "-"),
    ("v2", "checksum changed", [edit(A4 + ".crc", '"value":', '"value":1')], BROKEN, "-"),
    ("v2", "an id without a file", [edit("commits/3", "a3f65030", "00000000")], BROKEN, "-"),
    (
        "v2",
        "ids of two partitions swapped",
        [
            edit("commits/3", "a3f65030-1870-44f7-a7a9-a263319a3c41", "swap"),
            edit("commits/3", "2e6c2729-e6c5-488c-bb7b-73e0e7c4ee7b", "a3f65030-1870-44f7-a7a9-a263319a3c41"),
            edit("commits/3", "swap", "2e6c2729-e6c5-488c-bb7b-73e0e7c4ee7b"),
        ],
        BROKEN,
        "-",
    ),
    ("v2", "ids absent", [put("commits/3", b'v2\n{"nextBatchWatermarkMs":0}')], BROKEN, "-"),
    ("v2", "commit latest missing", [lose("commits/3")], RISKY, "-"),
    ("v2", "two commits missing", [lose("commits/3", "commits/2")], BROKEN, "-"),
    ("v2", "no commits", [lose("commits")], BROKEN, "-"),
    (
        "v2",
        "an orphan branch",
        [copy(A4, "state/0/0/4_11111111-1870-44f7-a7a9-a263319a3c41.changelog")],
        OK,
        "-",
    ),
    ("tws", "nothing", [], OK, "-"),
    (
        "tws",
        "the HDFS-backed provider pinned",
        [
            pin(
                "offsets/2",
                STREAMING + "stateStore.providerClass",
                "org.apache.spark.sql.HDFSBackedStateStoreProvider",
            )
        ],
        BROKEN,
        "-",
    ),
    ("tws", "schemas lost", [lose("state/0/_stateSchema")], BROKEN, "-"),
    ("tws", "operator metadata lost", [lose("state/0/_metadata")], BROKEN, "-"),
    ("tws", "operator metadata torn", [cut("state/0/_metadata/v2/0", 0.5)], BROKEN, "-"),
]


def judged(name: str, spark: str, steps: list[Step]) -> CheckpointReport:
    held = golden(name, spark)
    damaged = held.checkpoint
    for step in steps:
        damaged = step(damaged)
    return analyze(damaged, parse_version(spark), output=held.output, inputs=held.inputs)


ROWS = [
    pytest.param(name, spark, steps, wanted, id=f"{name}: {what} on {spark}")
    for name, what, steps, *verdicts in [*LOGS, *SOURCES, *HDFS, *ROCKSDB]
    for spark, wanted in zip(("4.3.0", "3.5.9"), verdicts, strict=True)
    if wanted != "-"
]


@pytest.mark.parametrize(("name", "spark", "steps", "wanted"), ROWS)
def test_the_doctor_foresees_what_spark_did(name: str, spark: str, steps: list[Step], wanted: str) -> None:
    verdict = judged(name, spark, steps)
    assert verdict.verdict == wanted, [finding.check for finding in verdict.findings]
