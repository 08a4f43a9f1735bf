"""Which part of a batch takes most of its time."""

from __future__ import annotations

import pytest

from controlplane.capacity.bottleneck import bottleneck, commit_seconds, task_slots
from controlplane.driver_model import HostLoad
from controlplane.model import OperatorSample, ProgressSample
from tests.unit.controlplane.situations import NOW, agent, sample, source, view


def taking(phases: dict[str, int], count: int = 6, **changes) -> list[ProgressSample]:
    seconds = sum(phases.values()) / 1000
    return [sample(n, NOW - 60 + n, phases_ms=phases, duration=seconds, **changes) for n in range(count)]


def committing(milliseconds: int, stores: int) -> OperatorSample:
    return OperatorSample("stateStoreSave", 10, 1, 0, 0, 100, milliseconds, stores)


@pytest.mark.parametrize(
    ("phases", "part"),
    [
        ({"addBatch": 800, "queryPlanning": 100, "walCommit": 50}, "tasks"),
        ({"addBatch": 100, "queryPlanning": 500, "walCommit": 50}, "planning"),
        ({"addBatch": 100, "latestOffset": 300, "getBatch": 200}, "source"),
        ({"addBatch": 400, "walCommit": 300, "commitOffsets": 300}, "logs"),
    ],
)
def test_the_largest_part_is_the_bottleneck(phases: dict[str, int], part: str) -> None:
    found = bottleneck(view(), taking(phases))
    assert found.part == part
    assert sum(each.ratio for each in found.parts) == pytest.approx(1)
    assert found.ratio == max(each.ratio for each in found.parts)


def test_commits_of_state_are_divided_by_the_tasks_that_run_at_once() -> None:
    """200 stores of 20 ms each on 2 cores take 2 s, not 4 s; of an unknown number of cores at least 20 ms."""
    batch = taking({"addBatch": 3000}, operators=(committing(4000, 200),))[0]
    assert commit_seconds(batch, 2) == pytest.approx(2.0)
    assert commit_seconds(batch, None) == pytest.approx(0.02)
    local = view(agent=agent(master="local[2]"))
    assert bottleneck(local, [batch] * 5).part == "state_commit"
    assert bottleneck(view(), [batch] * 5).part == "tasks"


@pytest.mark.parametrize(
    ("master", "slots"),
    [
        ("local", 1),
        ("local[4]", 4),
        ("local[3,2]", 3),
        ("local[*]", 8),
        ("yarn", None),
        (None, None),
        ("local[0]", None),
    ],
)
def test_task_slots_are_known_only_in_local_mode(master: str | None, slots: int | None) -> None:
    assert task_slots(view(agent=agent(master=master), host=HostLoad(NOW, cpus=8.0))) == slots


def test_cpus_of_a_connect_client_are_not_the_drivers() -> None:
    host = HostLoad(NOW, of_client=True, cpus=8.0)
    assert task_slots(view(agent=agent(master="local[*]"), host=host)) is None


def test_one_partition_with_most_rows_is_named() -> None:
    read = source({"t/0": 0, "t/1": 0, "t/2": 0}, {"t/0": 900, "t/1": 50, "t/2": 50}, None)
    found = bottleneck(view(), taking({"addBatch": 900, "walCommit": 100}, sources=[read]))
    assert found.part == "skewed_partition"
    assert "t/0 has 90% of the rows of 3 partitions" in found.sentence


def test_a_skewed_partition_does_not_matter_where_tasks_do_not() -> None:
    read = source({"t/0": 0, "t/1": 0}, {"t/0": 900, "t/1": 50}, None)
    assert bottleneck(view(), taking({"addBatch": 100, "walCommit": 900}, sources=[read])).part == "logs"


def test_phases_longer_than_the_batch_are_shares_of_their_sum() -> None:
    """Spark measures some phases within others."""
    found = bottleneck(
        view(), [sample(1, NOW, phases_ms={"addBatch": 900, "queryPlanning": 900}, duration=1.0)]
    )
    assert sum(each.ratio for each in found.parts) == pytest.approx(1)


def test_batches_without_a_duration_have_no_bottleneck() -> None:
    assert bottleneck(view(), [sample(1, NOW, duration=0.0, phases_ms={})]) is None
    assert bottleneck(view(), []) is None
