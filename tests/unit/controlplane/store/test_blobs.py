"""Event data packs small and comes back as it was."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.store import blobs
from controlplane.store.blobs import Packer, Unpacker, pack_json
from tests.drivers import real_reports
from tests.stores import StoreHarness, sqlite_harness


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path_factory.mktemp("blobs")) as opened:
        yield opened


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=9), VALUES, max_size=5))
def test_any_json_object_comes_back_as_it_was(harness: StoreHarness, value: dict[str, Any]) -> None:
    with harness.engine.connect() as connection:
        packer = blobs.newest_packer(connection)
        assert Unpacker(connection).unpack(packer.dictionary, packer.pack(pack_json(value))) == value


def test_blobs_without_a_dictionary_can_be_read_too(harness: StoreHarness) -> None:
    with harness.engine.connect() as connection:
        assert Unpacker(connection).unpack(0, Packer().pack(b'{"a":1}')) == {"a": 1}


def test_a_report_takes_a_fraction_of_its_json(harness: StoreHarness) -> None:
    with harness.engine.connect() as connection:
        packer = blobs.newest_packer(connection)
    plain = [json.dumps(report, separators=(",", ":")).encode() for report in real_reports()]
    assert sum(len(packer.pack(data)) for data in plain) < 0.2 * sum(map(len, plain))


def test_halves_of_surrogate_pairs_are_replaced() -> None:
    assert pack_json({"a": "x\ud800"}) == '{"a":"x\ufffd"}'.encode()


def test_a_packer_serves_many_threads() -> None:
    packer, wrong = Packer(1, blobs.BUILT_IN_DICTIONARY.read_bytes()), []
    expected = [packer.pack(pack_json(report)) for report in real_reports()]

    def pack() -> None:
        for _ in range(50):
            if [packer.pack(pack_json(report)) for report in real_reports()] != expected:
                wrong.append(1)

    threads = [threading.Thread(target=pack) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
