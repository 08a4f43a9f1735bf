"""Sets of baselines, chunk by chunk, on every store."""

from __future__ import annotations

import numpy as np
import pytest

from controlplane.errors import BodyTooLarge
from controlplane.store import baselines as rows
from controlplane.store.baselines import StoredBaseline
from tests.stores import StoreHarness


def some(*ids: str, value: float = 1.0) -> list[StoredBaseline]:
    return [StoredBaseline(item, "shop", f"query {item}", 5.0, np.full(6, value, np.float32)) for item in ids]


def known(harness: StoreHarness) -> dict[str, float]:
    return {item.query_id: float(item.values[0]) for item in harness.read(rows.current)}


def test_a_set_is_seen_when_its_last_chunk_came(harness: StoreHarness) -> None:
    assert harness.write(rows.put_chunk, "one", 1, 2, some("b")) is False
    assert known(harness) == {}
    assert harness.write(rows.put_chunk, "one", 0, 2, some("a")) is True
    assert known(harness) == {"a": 1.0, "b": 1.0}


def test_a_new_set_takes_the_place_of_the_old_one_as_a_whole(harness: StoreHarness) -> None:
    harness.write(rows.put_chunk, "one", 0, 1, some("a", "b"))
    harness.write(rows.put_chunk, "two", 0, 2, some("c"))
    assert known(harness) == {"a": 1.0, "b": 1.0}
    harness.write(rows.put_chunk, "two", 1, 2, some("d"))
    assert known(harness) == {"c": 1.0, "d": 1.0}
    assert harness.write(rows.put_chunk, "none", 0, 1, []) is True
    assert known(harness) == {}


def test_a_set_of_more_chunks_takes_nothing_from_the_one_of_the_same_name(harness: StoreHarness) -> None:
    harness.write(rows.put_chunk, "one", 0, 1, some("a", "b"))
    assert harness.write(rows.put_chunk, "one", 0, 2, some("c")) is False
    assert known(harness) == {"a": 1.0, "b": 1.0}
    assert harness.write(rows.put_chunk, "one", 1, 2, []) is True
    assert known(harness) == {"c": 1.0}


def test_a_chunk_that_comes_again_counts_once(harness: StoreHarness) -> None:
    harness.write(rows.put_chunk, "one", 0, 2, some("a"))
    assert harness.write(rows.put_chunk, "one", 0, 2, some("a", value=2.0)) is False
    assert harness.write(rows.put_chunk, "one", 1, 2, some("b")) is True
    assert harness.write(rows.put_chunk, "one", 1, 2, some("b", value=3.0)) is True
    assert known(harness) == {"a": 2.0, "b": 3.0}


def test_the_rest_of_an_unfinished_set_is_removed(harness: StoreHarness) -> None:
    harness.write(rows.put_chunk, "one", 0, 3, some("a"))
    harness.write(rows.put_chunk, "two", 0, 2, some("b"))
    assert harness.write(rows.put_chunk, "one", 1, 3, some("c")) is False
    assert harness.write(rows.put_chunk, "one", 2, 3, some("d")) is False
    assert known(harness) == {}


def test_a_set_has_an_end(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_QUERIES", 2)
    with pytest.raises(BodyTooLarge, match="at most 2 queries"):
        harness.write(rows.put_chunk, "one", 0, 1, some("a", "b", "c"))
    assert known(harness) == {}
