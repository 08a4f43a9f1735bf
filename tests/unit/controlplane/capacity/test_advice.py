"""Advice: each is given where its condition holds, with its figures, and not where it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from controlplane.capacity.advice import AdviceInput, CapacityAdvice, advice
from controlplane.capacity.assessment import assess
from controlplane.capacity.configuration import BOUNDED, CHANGELOG, METRICS, PROVIDER, rate_limit
from controlplane.health.context import context_at
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import OperatorSample, ProgressSample, QueryView, RunFacts
from controlplane.shapes.model import Endpoint, Shape
from tests.unit.controlplane.situations import NOW, agent, batches, sample, source, view
from tests.unit.controlplane.wild_views import views_

KAFKA = Endpoint("KafkaV2", format="kafka")
ROCKSDB = {PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
HDFS = {PROVIDER: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"}
LOCAL = agent(master="local[2]")
ASAP = RunFacts(trigger="processing_time", trigger_interval=0.0)


def shape(conf: dict[str, str] | None = None, **options: str) -> Shape:
    return Shape(None, sources=(replace(KAFKA, options=options),), conf=conf or {})


def given_to(seen: QueryView, of: Shape | None, heap: float | None = None) -> list[CapacityAdvice]:
    context = context_at(seen, NOW, DEFAULTS)
    found = assess(context, rate_limit=rate_limit(of))
    return advice(AdviceInput(context, found, of, heap))


def settings_in(found: list[CapacityAdvice]) -> list[str]:
    return [each.setting for each in found]


def stateful(
    stores: int = 200, updated: int = 50, commit_ms: int = 10, memory: int = 1000, **metrics: float
) -> Any:
    operator = OperatorSample("stateStoreSave", 100, updated, 0, 0, memory, commit_ms, stores, metrics)
    return batches(
        [0] * 12, operators=(operator,), phases_ms={"addBatch": 900, "walCommit": 50}, duration=1.0
    )


def test_many_partitions_on_few_cores() -> None:
    (found,) = given_to(view(progress=stateful(), agent=LOCAL), shape())
    assert (found.setting, found.now, found.needs_new_checkpoint) == (
        "spark.sql.shuffle.partitions",
        "200",
        True,
    )
    assert found.advice == "Set it to 2 to 4."
    assert "200 state tasks on 2 cores" in found.reason


@pytest.mark.parametrize(
    "seen",
    [
        view(progress=stateful()),
        view(progress=stateful(stores=4), agent=LOCAL),
        view(progress=stateful(stores=1), agent=LOCAL),
        view(progress=stateful(updated=10**6), agent=LOCAL),
        view(progress=stateful()[:4], agent=LOCAL),
    ],
    ids=["cores unknown", "few partitions", "few rows", "many rows in each", "few batches"],
)
def test_partitions_that_are_right_or_unknown_are_left_alone(seen: QueryView) -> None:
    assert given_to(seen, shape()) == []


def test_fewer_partitions_than_cores() -> None:
    (found,) = given_to(
        view(progress=stateful(stores=2, updated=5000), agent=agent(master="local[8]")), shape()
    )
    assert found.advice == "Set it to 8 or more."


def test_a_rate_limit_that_leaves_the_query_idle_while_rows_wait() -> None:
    behind = view(progress=batches([1000.0] * 12, rows=100))
    (found,) = given_to(behind, shape(maxoffsetspertrigger="100"))
    assert (found.setting, found.now) == ("maxOffsetsPerTrigger", "100")
    assert found.advice == "Raise it to about 700."
    assert "1,000 rows wait" in found.reason


@pytest.mark.parametrize(
    ("lags", "changes", "limit"),
    [
        ([0.0] * 12, {}, "100"),
        ([1000.0] * 12, {"duration": 9.5}, "100"),
        ([1000.0] * 12, {}, "5000"),
    ],
    ids=["nothing waits", "always busy", "not reached"],
)
def test_a_rate_limit_that_does_not_matter(lags: list[float], changes: dict[str, Any], limit: str) -> None:
    assert (
        given_to(view(progress=batches(lags, rows=100, **changes)), shape(maxoffsetspertrigger=limit)) == []
    )


def after_a_pause() -> tuple[ProgressSample, ...]:
    normal = batches([0.0] * 12, rows=100)
    huge = source({"orders/0": 0}, {"orders/0": 9000}, {"orders/0": 9000})
    return (sample(77, NOW - 300, [huge], duration=90.0), *normal)


def test_a_huge_batch_without_a_rate_limit() -> None:
    (found,) = given_to(view(progress=after_a_pause()), shape())
    assert (found.setting, found.now) == ("maxOffsetsPerTrigger", None)
    assert "Batch 77 read 9,000 rows at once and took 1 min 30 s" in found.reason
    assert given_to(view(progress=after_a_pause()), shape(maxoffsetspertrigger="50000")) == []


def test_batches_that_overrun_the_interval() -> None:
    found = given_to(view(progress=batches([0.0] * 12, rows=100, every=12.0, duration=12.0)), shape())
    assert settings_in(found) == ["trigger interval"]
    assert "11 of 11 batches" in found[0].reason or "12 of 12 batches" in found[0].reason


def test_small_batches_that_mostly_plan() -> None:
    phases = {"queryPlanning": 600, "walCommit": 200, "addBatch": 200}
    small = batches([0.0] * 12, every=1.0, duration=1.0, phases_ms=phases)
    assert settings_in(given_to(view(progress=small, facts=ASAP), shape())) == ["trigger interval"]
    calm = batches([0.0] * 12, every=5.0, duration=1.0, phases_ms=phases)
    assert given_to(view(progress=calm, facts=ASAP), shape()) == []


def test_commits_without_a_changelog() -> None:
    slow = view(progress=stateful(stores=4, commit_ms=2000), agent=LOCAL)
    assert settings_in(given_to(slow, shape({**ROCKSDB, CHANGELOG: "false"}))) == [CHANGELOG]
    assert given_to(slow, shape({**ROCKSDB, CHANGELOG: "true"})) == []
    assert given_to(slow, shape({**HDFS, CHANGELOG: "false"})) == []


def test_unbounded_memory_of_rocksdb() -> None:
    large = view(progress=stateful(memory=2 * 10**9))
    (found,) = given_to(large, shape(ROCKSDB))
    assert (found.setting, "2 GB" in found.reason) == (BOUNDED, True)
    assert given_to(large, shape({**ROCKSDB, BOUNDED: "true"})) == []


def test_reads_that_miss_the_block_cache() -> None:
    missing = {"rocksdbReadBlockCacheHitCount": 1000.0, "rocksdbReadBlockCacheMissCount": 9000.0}
    (found,) = given_to(view(progress=stateful(**missing)), shape(ROCKSDB))
    assert found.setting.endswith("blockCacheSizeMB")
    assert "90% of" in found.reason


def test_state_that_fills_the_heap() -> None:
    large = view(progress=stateful(memory=4 * 10**8))
    (found,) = given_to(large, shape(HDFS), heap=1e9)
    assert (found.setting, found.needs_new_checkpoint) == (PROVIDER, True)
    assert given_to(large, shape(HDFS), heap=4e9) == given_to(large, shape(HDFS)) == []


def test_state_stores_that_move_between_executors() -> None:
    moving = stateful(rocksdbNumLoadedFromDfs=3.0)
    (found,) = given_to(view(progress=moving, executors=4), shape(ROCKSDB))
    assert found.setting == "spark.locality.wait"
    assert given_to(view(progress=moving, executors=1), shape(ROCKSDB)) == []


def test_a_skewed_partition() -> None:
    lags = [{"orders/0": 0.0, "orders/1": 0.0}] * 12
    even = batches(lags)
    skewed = tuple(
        replace(
            s,
            sources=(
                replace(
                    s.sources[0],
                    start={"orders/0": 0.0, "orders/1": 0.0},
                    end={"orders/0": 90.0, "orders/1": 10.0},
                ),
            ),
        )
        for s in even
    )
    assert settings_in(given_to(view(progress=skewed), shape())) == ["minPartitions"]
    assert given_to(view(progress=even), shape()) == []


def test_dropwizard_metrics_beside_the_agents() -> None:
    assert settings_in(given_to(view(), shape({METRICS: "true"}))) == [METRICS]
    assert given_to(view(), shape()) == given_to(view(), None) == []


@given(views_)
@settings(max_examples=40)
def test_any_view_has_advice_without_a_failure(seen: QueryView) -> None:
    given_to(seen, shape({**ROCKSDB, METRICS: "true"}, maxoffsetspertrigger="5"), heap=1e9)
