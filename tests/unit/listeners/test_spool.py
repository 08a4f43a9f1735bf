"""The spool: nothing acknowledged comes back, nothing unacknowledged is lost, damage is counted."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from listeners.errors import SpoolError
from listeners.spool import MemoryQueue, Spool, open_spool, orphans

OWNER = {"app": "orders", "server": "http://localhost:8420"}


def records(first, count, size=20):
    return [(seq, b"%d:" % seq + b"x" * size) for seq in range(first, first + count)]


def seqs(batch):
    return [seq for seq, _ in batch]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "spool" / "agent"


def test_records_come_back_in_order_until_acknowledged(place):
    spool = Spool(place)
    spool.append(records(1, 5))
    assert seqs(spool.peek(3, 10_000)) == [1, 2, 3]
    assert seqs(spool.peek(3, 10_000)) == [1, 2, 3]
    spool.acknowledge(3)
    assert seqs(spool.peek(100, 10_000)) == [4, 5]
    assert spool.events == 2


def test_a_batch_is_bounded_in_bytes_but_never_empty(place):
    spool = Spool(place)
    spool.append(records(1, 3, size=1000))
    assert seqs(spool.peek(100, 1500)) == [1]


def test_a_new_owner_goes_on_behind_the_last_acknowledgement(place):
    spool = Spool(place)
    spool.append(records(1, 10))
    spool.peek(4, 10_000)
    spool.acknowledge(4)
    spool.close()
    again = Spool(place)
    assert again.high_seq == 10 and again.acknowledged_seq == 4
    assert seqs(again.peek(100, 10_000)) == [5, 6, 7, 8, 9, 10]


def test_one_process_at_a_time(place):
    spool = Spool(place)
    with pytest.raises(SpoolError):
        Spool(place)
    spool.close()
    Spool(place).close()


def test_read_segments_are_deleted_and_the_current_one_when_it_is_full(place):
    spool = Spool(place, segment_bytes=100)
    for seq in range(1, 11):
        spool.append(records(seq, 1, size=50))
    assert len(list(place.glob("*.events"))) > 3
    spool.peek(100, 10_000)
    spool.acknowledge(10)
    assert len(list(place.glob("*.events"))) <= 1
    spool.append(records(11, 1))
    assert seqs(spool.peek(100, 10_000)) == [11]


def test_past_its_bound_the_oldest_events_go_and_are_counted(place):
    spool = Spool(place, max_bytes=1000, segment_bytes=200)
    for seq in range(1, 31):
        spool.append(records(seq, 1, size=50))
    kept = seqs(spool.peek(100, 100_000))
    assert kept[-1] == 30 and kept == list(range(kept[0], 31))
    assert spool.lost["spool_full"] == 30 - len(kept) and spool.bytes <= 1300


def test_a_disk_that_refuses_leaves_events_in_memory_in_order(place, monkeypatch):
    spool = Spool(place)
    spool.append(records(1, 2))

    def refuse(records):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool, "_write", refuse)
    spool.append(records(3, 2))
    monkeypatch.undo()
    spool.append(records(5, 2))  # the disk is back, but memory must be read first
    assert seqs(spool.peek(100, 10_000)) == [1, 2, 3, 4, 5, 6]
    spool.acknowledge(6)
    spool.append(records(7, 1))
    assert seqs(spool.peek(100, 10_000)) == [7] and spool.lost == {}
    spool.close()
    assert seqs(Spool(place).peek(100, 10_000)) == [7]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is Linux's")
def test_a_really_full_disk_is_survived(place):
    spool = Spool(place)
    (place / "0000000000000001.events").symlink_to("/dev/full")
    spool.append(records(1, 2))
    assert seqs(spool.peek(100, 10_000)) == [1, 2]


def test_a_record_cut_off_at_any_byte_costs_only_itself(place):
    spool = Spool(place)
    spool.append(records(1, 3))
    spool.close()
    path = next(place.glob("*.events"))
    whole = path.read_bytes()
    last = len(whole) - len(whole.splitlines(keepends=True)[-1])
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        again = Spool(place)
        assert seqs(again.peek(100, 10_000)) == [1, 2]
        again.append(records(4, 1))  # a new segment: the torn tail hides nothing
        assert seqs(again.peek(100, 10_000)) == [1, 2, 4]
        again.close()
        for extra in sorted(place.glob("*.events"))[1:]:
            extra.unlink()


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_costs_at_most_two_records_and_is_counted(tmp_path_factory, position, bit):
    place = tmp_path_factory.mktemp("flip")
    spool = Spool(place)
    spool.append(records(1, 6))
    spool.close()
    path = next(place.glob("*.events"))
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(bytes(content))
    again = Spool(place)
    batch = again.peek(100, 10_000)
    assert len(batch) >= 4 and all(record in records(1, 6) for record in batch)
    again.acknowledge(6)
    # A flipped newline at the very end only leaves a record that looks cut off.
    assert len(batch) == 6 or again.lost["corrupt_record"] >= 1 or position % len(content) == len(content) - 1
    again.close()


def test_what_a_dead_process_left_is_found_by_the_same_owner_only(tmp_path):
    for agent, app in (("a1", "orders"), ("a2", "clicks")):
        spool = open_spool(tmp_path, agent, dict(OWNER, app=app))
        spool.append(records(1, 2))
        spool.close()
    living = open_spool(tmp_path, "a3", OWNER)
    living.append(records(1, 1))
    found = list(orphans(tmp_path, OWNER))
    assert [spool.directory.name for spool in found] == ["a1"]
    assert seqs(found[0].peek(10, 1000)) == [1, 2]
    found[0].close(remove=True)
    assert not (tmp_path / "a1").exists()
    assert json.loads((tmp_path / "a3" / "owner.json").read_text())["app"] == "orders"


def test_a_directory_that_cannot_be_made_is_an_error_in_words(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="cannot be used"):
        Spool(Path(tmp_path / "file" / "agent"))


def test_the_queue_in_memory_is_bounded_and_counts():
    queue = MemoryQueue(max_events=3)
    queue.append(records(1, 5))
    assert seqs(queue.peek(2, 10_000)) == [3, 4] and queue.lost == {"disk_unusable": 2}
    queue.acknowledge(4)
    assert seqs(queue.peek(9, 10_000)) == [5] and queue.events == 1
