"""What the samples add to Spark's figures for the shipped rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.health.judge import judge
from controlplane.metrics.samples import query_samples
from controlplane.model import OperatorSample, QueryView, RunFacts
from tests.unit.controlplane.situations import NOW, in_batch, run, sample, source, view


def values(item: QueryView, *wanted: str) -> dict[str, float]:
    names = frozenset(f"spark_streaming_{name}" for name in wanted)
    samples = query_samples(item, judge(item, NOW), NOW, {}, names)
    return {found.metric.name.removeprefix("spark_streaming_"): found.value for found in samples}


def test_skew_is_seen_from_the_worst_and_the_median_partition() -> None:
    ends = {f"clicks/{part}": 10.0 for part in range(4)}
    heads = {**dict.fromkeys(ends, 12.0), "clicks/3": 5010.0}
    item = view(progress=(sample(1, NOW - 5, [source(ends, ends, heads)]),))
    found = values(item, "source_max_partition_lag_rows", "source_median_partition_lag_rows")
    assert found == {"source_max_partition_lag_rows": 5000, "source_median_partition_lag_rows": 2}


@pytest.mark.parametrize(("label", "seconds"), [("7d", 604800), ("soon", None), ("0", None), ("", None)])
def test_the_retention_is_a_label_of_the_query(label: str, seconds: float | None) -> None:
    item = view(labels={"retention": label})
    assert values(item, "source_retention_seconds").get("source_retention_seconds") == seconds


def test_the_facts_of_a_query_name_what_it_lacks() -> None:
    item = view(
        name=None,
        facts=RunFacts("processing_time", 10.0, checkpoint_is_temporary=True, output_mode="append"),
    )
    wanted = frozenset({"spark_streaming_query_info"})
    (named,) = query_samples(item, judge(item, NOW), NOW, {}, wanted)
    assert (named.labels["unnamed"], named.labels["temporary_checkpoint"]) == ("true", "true")
    assert named.labels["output_mode"] == "append"
    (plain,) = query_samples(view(), judge(view(), NOW), NOW, {}, wanted)
    assert not {"unnamed", "temporary_checkpoint"} & plain.labels.keys()


def test_a_run_is_starting_until_its_first_report_or_until_it_is_idle() -> None:
    begun = replace(view(), run=run(run_id="run-2", started_at=NOW - 700), status=in_batch(run_id="run-2"))
    assert values(begun, "query_starting_seconds") == {"query_starting_seconds": 700}
    reported = replace(begun, progress=(*begun.progress, sample(13, NOW - 5, run_id="run-2")))
    assert values(reported, "query_starting_seconds") == {}
    assert values(replace(begun, idle_at=NOW - 300), "query_starting_seconds") == {}
    assert values(view(), "query_starting_seconds") == {}


def test_the_state_is_a_share_of_the_limits_that_labels_declare() -> None:
    rocks = OperatorSample("dedupe", 400, 1, 0, 0, 10**6, 1, 2, {"rocksdbSstFileSize": 2 * 2**20})
    heap = OperatorSample("join", 100, 1, 0, 0, 2**20, 1, 2, {})
    item = view(
        labels={"state_limit_rows": "1000", "state_limit_bytes": "12MiB"},
        progress=(replace(sample(1, NOW - 5), operators=(rocks, heap)),),
    )
    wanted = frozenset({"spark_streaming_state_limit_ratio"})
    found = query_samples(item, judge(item, NOW), NOW, {}, wanted)
    assert {each.labels["unit"]: each.value for each in found} == {"rows": 0.5, "bytes": 0.25}
    assert values(replace(item, labels={"state_limit_rows": "many"}), "state_limit_ratio") == {}


def test_only_the_wanted_custom_figures_are_computed() -> None:
    figures = {"rocksdbWriterStallLatencyMs": 1500.0, "rocksdbGetLatency": 9.0, "myMs": 2000.0}
    operator = OperatorSample("dedupe", 1, 1, 0, 0, 1, 1, 2, figures)
    item = view(progress=(replace(sample(1, NOW - 5), operators=(operator,)),))
    assert values(item, "rocksdb_writer_stall_seconds") == {"rocksdb_writer_stall_seconds": 1.5}
    found = values(item, "rocksdb_writer_stall_seconds", "state_custom_my_seconds")
    assert found == {"rocksdb_writer_stall_seconds": 1.5, "state_custom_my_seconds": 2.0}
