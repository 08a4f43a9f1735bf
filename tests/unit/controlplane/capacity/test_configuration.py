"""What a shape states about capacity."""

from __future__ import annotations

import pytest

from controlplane.capacity import configuration
from controlplane.shapes.model import Endpoint, Shape

KAFKA = Endpoint("KafkaV2", options={"maxoffsetspertrigger": "5000"})


def test_a_rate_limit_is_that_of_the_only_source() -> None:
    assert configuration.rate_limit(Shape(None, sources=(KAFKA,))) == ("maxOffsetsPerTrigger", 5000)
    for unknown in (
        None,
        Shape(None),
        Shape(None, sources=(KAFKA, KAFKA)),
        Shape(None, sources=(Endpoint("x"),)),
    ):
        assert configuration.rate_limit(unknown) is None


def test_the_checkpoint_decides_on_the_provider() -> None:
    both = Shape(
        None, conf={configuration.PROVIDER: "x.HDFSBacked"}, pinned={configuration.PROVIDER: "x.RocksDB"}
    )
    assert configuration.is_rocksdb(both)
    assert configuration.is_rocksdb(Shape(None)) is None


@pytest.mark.parametrize(
    ("heartbeat", "executors", "heap"),
    [
        ({"driver": {"heapMax": 1e9}}, 0, 1e9),
        ({"driver": {"heapMax": 1e9}}, 3, None),
        ({"driver": {"heapMax": 1e9}}, None, None),
        ({"driver": {"heapMax": "x"}}, 0, None),
        (None, 0, None),
    ],
)
def test_state_is_on_the_drivers_heap_only_in_local_mode(heartbeat, executors, heap) -> None:
    assert configuration.heap_bytes(heartbeat, executors) == heap


def test_the_heap_limits_only_state_that_is_on_it() -> None:
    hdfs = Shape(None, conf={configuration.PROVIDER: "x.HDFSBackedStateStoreProvider"})
    assert [limit.value for limit in configuration.heap_limit(hdfs, 1e9)] == [1e9]
    assert (
        list(configuration.heap_limit(hdfs, None)) == list(configuration.heap_limit(Shape(None), 1e9)) == []
    )


def test_a_shape_that_cannot_be_read_is_unknown() -> None:
    assert configuration.parsed_shape({"shape": {"v": 99}}) is None
    assert configuration.parsed_shape(None) is None
