"""The spool on disk: nothing acknowledged comes back, nothing else is lost, damage is counted.

What holds for every queue is in `tests/contract/test_queue.py`.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from listeners.delivery import locks, segments
from listeners.delivery.spool import MAX_READ_FAILURES, Spool
from listeners.protocol.errors import SpoolError

OWNER = {"app": "orders", "server": "http://localhost:8420"}


def records(first, count, size=20):
    return [(seq, b"%d:" % seq + b"x" * size) for seq in range(first, first + count)]


def seqs(batch):
    return [seq for seq, _ in batch]


def left_behind(place, *rows):
    spool = Spool(place, OWNER)
    for row in rows:
        spool.append(row)
    spool.close()
    return sorted(place.glob("*.events"))[-1]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "spool" / "agent"


def test_who_comes_next_goes_on_behind_the_last_acknowledgement(place):
    spool = Spool(place, OWNER)
    spool.append(records(1, 10))
    spool.peek(4, 10_000)
    spool.acknowledge(4)
    spool.close()
    again = Spool(place)
    assert again.high_seq == 10 and again.settled_seq == 4 and again.events == 6
    assert seqs(again.peek(100, 10_000)) == [5, 6, 7, 8, 9, 10]


def test_one_process_at_a_time(place):
    spool = Spool(place, OWNER)
    with pytest.raises(SpoolError, match="in use"):
        Spool(place)
    spool.close()
    Spool(place).close()


def test_read_segments_are_deleted_and_the_current_one_when_it_is_full(place):
    spool = Spool(place, OWNER, segment_bytes=100)
    for seq in range(1, 11):
        spool.append(records(seq, 1, size=50))
    assert len(list(place.glob("*.events"))) > 3
    spool.peek(100, 10_000)
    spool.acknowledge(10)
    assert len(list(place.glob("*.events"))) <= 1
    spool.append(records(11, 1))
    assert seqs(spool.peek(100, 10_000)) == [11]


def test_past_its_bound_the_oldest_events_go_and_each_is_counted(place):
    spool = Spool(place, OWNER, max_bytes=1000, segment_bytes=200)
    for seq in range(1, 31):
        spool.append(records(seq, 1, size=50))
    kept = seqs(spool.peek(100, 100_000))
    assert kept[-1] == 30 and kept == list(range(kept[0], 31))
    assert spool.lost["spool_full"] == 30 - len(kept) and spool.bytes <= 1300
    assert spool.events == len(kept)


def test_an_acknowledged_event_that_goes_with_its_segment_is_no_loss(place):
    spool = Spool(place, OWNER, max_bytes=1000, segment_bytes=200)
    spool.append(records(1, 3, size=50))
    spool.acknowledge(spool.peek(2, 10_000)[-1][0])
    for seq in range(4, 31):
        spool.append(records(seq, 1, size=50))
    assert spool.lost["spool_full"] == 30 - 2 - len(spool.peek(100, 100_000))


def test_a_disk_that_takes_events_again_gets_what_waits_in_memory(place, monkeypatch):
    spool = Spool(place, OWNER)
    spool.append(records(1, 2))
    with monkeypatch.context() as patched:
        patched.setattr(spool, "_write", refuse)
        spool.append(records(3, 2))
        assert "No space left" in spool.trouble
    spool.append(records(5, 2))
    assert spool.trouble is None and spool._overflow.events == 0
    spool.close()
    assert seqs(Spool(place).peek(100, 10_000)) == [1, 2, 3, 4, 5, 6]


def test_what_the_disk_refuses_beyond_what_memory_holds_is_counted(place, monkeypatch):
    spool = Spool(place, OWNER)
    monkeypatch.setattr(spool, "_write", refuse)
    monkeypatch.setattr(spool._overflow, "_max_events", 3)
    for seq in range(1, 6):
        spool.append(records(seq, 1))
    assert seqs(spool.peek(10, 10_000)) == [3, 4, 5] and spool.lost == {"disk_unusable": 2}


def test_a_disk_that_never_was_there_is_used_once_it_is(tmp_path):
    spool = Spool(tmp_path / "mount" / "agent", OWNER)
    spool.close()
    (tmp_path / "file").write_text("")
    spool = Spool(tmp_path / "file" / "agent", OWNER)
    spool.append(records(1, 2))
    assert spool.trouble and seqs(spool.peek(10, 1000)) == [1, 2]
    (tmp_path / "file").unlink()
    spool.append(records(3, 1))
    assert spool.trouble is None and seqs(spool.peek(10, 1000)) == [1, 2, 3]
    spool.close()
    assert json.loads((tmp_path / "file" / "agent" / "owner.json").read_text())["app"] == "orders"


def test_what_a_read_only_disk_could_not_forget_neither_comes_again_nor_makes_a_hole(place, monkeypatch):
    spool = Spool(place, OWNER)
    spool.append(records(1, 5))
    with monkeypatch.context() as patched:
        spool._close_file()
        spool._release()
        for owner, name in ((segments.Cursor, "save"), (Path, "unlink"), (locks, "acquire")):
            patched.setattr(owner, name, refuse)
        spool.append(records(6, 3))
        assert spool.trouble and seqs(spool.peek(100, 10_000)) == list(range(1, 9))
        spool.acknowledge(8)
    assert list(place.glob("*.events"))
    spool.append(records(9, 2))
    assert spool.trouble is None and seqs(spool.peek(100, 10_000)) == [9, 10]
    spool.acknowledge(10)
    assert spool.lost == {} and spool.events == 0
    assert len(list(place.glob("*.events"))) == 1


def test_a_directory_that_is_removed_when_all_was_sent_costs_nothing(place):
    spool = Spool(place, OWNER, segment_bytes=50)
    spool.append(records(1, 5))
    spool.acknowledge(spool.peek(100, 10_000)[-1][0])
    assert not list(place.glob("*.events"))
    shutil.rmtree(place)
    spool.append(records(6, 2))
    assert seqs(spool.peek(100, 10_000)) == [6, 7] and spool.settled_seq == 5
    spool.acknowledge(7)
    assert spool.lost == {}


def test_a_half_written_record_that_was_written_again_is_no_loss(place):
    class Full:
        """Takes a part of the next append."""

        def __init__(self, file):
            self._file, self.name = file, file.name

        def write(self, blob):
            return self._file.write(blob[: len(blob) // 2 + 10])

        def fileno(self):
            return self._file.fileno()

        def close(self):
            self._file.close()

    spool = Spool(place, OWNER)
    spool.append(records(1, 1))
    spool._file = Full(spool._file)
    spool.append(records(2, 3))
    assert spool.trouble
    spool.append(records(5, 1))
    spool.abandon()
    again = Spool(place)
    batch = again.peek(100, 10_000)
    again.acknowledge(batch[-1][0])
    assert set(seqs(batch)) == {1, 2, 3, 4, 5} and again.lost == {} and again.events == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is Linux's")
def test_a_really_full_disk_is_survived(place):
    spool = Spool(place, OWNER)
    (place / "0000000000000001.events").symlink_to("/dev/full")
    spool.append(records(1, 2))
    assert seqs(spool.peek(100, 10_000)) == [1, 2] and spool.trouble


def test_the_cursor_and_the_deletions_work_on_a_full_disk(place, monkeypatch):
    spool = Spool(place, OWNER, segment_bytes=100)
    for seq in range(1, 11):
        spool.append(records(seq, 1, size=50))
    monkeypatch.setattr(segments.Cursor, "save", refuse)
    spool.peek(8, 10_000)
    spool.acknowledge(8)
    assert len(list(place.glob("*.events"))) <= 2 and seqs(spool.peek(10, 10_000)) == [9, 10]


@pytest.mark.parametrize("keeps_file", [True, False])
def test_a_directory_that_somebody_removes_is_made_again_and_the_loss_counted(place, keeps_file):
    spool = Spool(place, OWNER)
    spool.append(records(1, 5))
    spool.peek(2, 10_000)
    spool.acknowledge(2)
    shutil.rmtree(place)
    if not keeps_file:
        spool._close_file()
    spool.append(records(6, 2))
    assert seqs(spool.peek(10, 10_000)) == [6, 7]
    assert spool.lost == {"spool_removed": 3}
    with pytest.raises(SpoolError, match="in use"):
        Spool(place)
    spool.close()
    assert seqs(Spool(place).peek(10, 10_000)) == [6, 7]


def test_a_directory_that_is_gone_leaves_nothing_to_wait_for(place):
    spool = Spool(place, OWNER)
    spool.append(records(1, 5))
    shutil.rmtree(place)
    assert spool.peek(10, 10_000) == [] and spool.events == 0
    assert spool.lost == {"spool_removed": 5}


def test_a_segment_that_cannot_be_read_is_tried_again_and_given_up_in_the_end(place, monkeypatch):
    spool = Spool(place, OWNER, segment_bytes=50)
    for seq in range(1, 5):
        spool.append(records(seq, 1, size=80))
    bad = segments.segment_name(1)
    real = segments.read_lines

    def read(path, start, size):
        if path.name == bad:
            raise OSError(5, "Input/output error")
        return real(path, start, size)

    monkeypatch.setattr(segments, "read_lines", read)
    for _ in range(MAX_READ_FAILURES - 1):
        with pytest.raises(SpoolError, match="Input/output error"):
            spool.peek(10, 10_000)
    assert seqs(spool.peek(10, 10_000)) == [2, 3, 4] and spool.lost == {"spool_unreadable": 1}


def test_what_somebody_cuts_off_between_two_records_is_counted_once(place):
    spool = Spool(place, OWNER)
    for seq in range(1, 11):
        spool.append(records(seq, 1, size=100))
    path = next(place.glob("*.events"))
    cut_to(path, 5)
    assert seqs(spool.peek(100, 10_000)) == [1, 2, 3, 4, 5]
    spool.append(records(11, 2))
    spool.acknowledge(5)
    assert seqs(spool.peek(100, 10_000)) == [11, 12]
    spool.acknowledge(12)
    assert spool.peek(100, 10_000) == [] and spool.events == 0 and spool.lost == {"corrupt_record": 5}


@pytest.mark.parametrize("sent", [0, 3, 8])
def test_a_file_that_was_cut_and_written_on_costs_what_was_cut_off(place, sent):
    spool = Spool(place, OWNER)
    for seq in range(1, 11):
        spool.append(records(seq, 1, size=100))
    if sent:
        spool.peek(sent, 10_000)
        spool.acknowledge(sent)
    cut_to(next(place.glob("*.events")), 5)
    spool.append(records(11, 1))
    spool.append(records(12, 1))
    came = []
    while batch := spool.peek(4, 10_000):
        came += seqs(batch)
        spool.acknowledge(batch[-1][0])
    lost = sum(spool.lost.values())
    assert sent + len(came) + lost == 12 and spool.events == 0 and lost >= min(5, 10 - sent)
    spool.append(records(13, 1))
    assert seqs(spool.peek(4, 10_000)) == [13] and sum(spool.lost.values()) == lost


def test_what_memory_dropped_is_not_counted_a_second_time_as_a_hole(place, monkeypatch):
    spool = Spool(place, OWNER)
    monkeypatch.setattr(spool._overflow, "_max_events", 3)
    spool.append(records(1, 2))
    with monkeypatch.context() as patched:
        patched.setattr(spool, "_write", refuse)
        for seq in range(3, 11):
            spool.append(records(seq, 1))
    assert seqs(spool.peek(10, 10_000)) == [1, 2, 8, 9, 10]
    spool.append(records(11, 1))
    assert seqs(spool.peek(10, 10_000)) == [1, 2, 8, 9, 10, 11]
    spool.acknowledge(11)
    assert spool.lost == {"disk_unusable": 5} and spool.events == 0


@pytest.mark.parametrize("arrives", [True, False])
def test_events_that_are_dropped_under_way_are_lost_only_if_they_do_not_arrive(place, arrives):
    spool = Spool(place, OWNER, max_bytes=4000, segment_bytes=1000)
    for seq in range(1, 31):
        spool.append(records(seq, 1, size=100))
    batch = spool.peek(100, 100_000)
    came = set()
    for seq in range(31, 91):
        spool.append(records(seq, 1, size=100))
    if arrives:
        spool.acknowledge(batch[-1][0])
        came.update(seqs(batch))
    came.update(seqs(spool.peek(100, 100_000)))
    spool.acknowledge(90)
    assert spool.lost == {"spool_full": 90 - len(came)}
    assert spool.lost["spool_full"] > 0


def test_a_record_cut_off_at_any_byte_costs_only_itself(place):
    path = left_behind(place, records(1, 3))
    whole = path.read_bytes()
    last = len(whole) - len(whole.splitlines(keepends=True)[-1])
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        (place / "cursor").unlink(missing_ok=True)
        again = Spool(place)
        assert seqs(again.peek(100, 10_000)) == [1, 2]
        again.append(records(4, 1))  # a new segment: the torn tail hides nothing
        assert seqs(again.peek(100, 10_000)) == [1, 2, 4]
        again.acknowledge(4)
        assert again.lost == ({"corrupt_record": 1} if cut > last else {}) and again.events == 0
        again.close()
        shutil.rmtree(place)
        place.mkdir()
        path.write_bytes(whole)


def test_a_torn_record_in_the_segment_of_the_next_append_does_not_join_it(place):
    path = left_behind(place, records(1, 1))
    path.write_bytes(path.read_bytes()[:-9])
    again = Spool(place)
    again.append(records(1, 2))
    assert seqs(again.peek(100, 10_000)) in ([1, 2], [2])
    assert again.lost.get("corrupt_record", 0) <= 1
    again.close()


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_costs_at_most_two_records_and_each_is_counted(tmp_path_factory, position, bit):
    place = tmp_path_factory.mktemp("flip")
    path = left_behind(place, records(1, 6))
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(bytes(content))
    again = Spool(place)
    batch = again.peek(100, 10_000)
    assert len(batch) >= 4 and all(record in records(1, 6) for record in batch)
    again.acknowledge(again.high_seq)
    at_the_end = max(seqs(batch)) < 6  # nothing behind tells how many went
    assert again.lost["corrupt_record"] == 6 - len(batch) or (
        at_the_end and again.lost["corrupt_record"] == 1
    )
    assert (place / "damaged").stat().st_size > 0
    again.close(remove=True)
    assert not place.exists()
    assert place.with_name(place.name + ".damaged").stat().st_size > 0


def test_a_damaged_record_is_counted_once_however_often_it_is_met(place):
    path = left_behind(place, records(1, 4))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"garbage\n" + b"".join(lines[2:]))
    for _ in range(3):
        again = Spool(place)
        assert seqs(again.peek(2, 10_000)) == [1, 3]
        again.close()
    again = Spool(place)
    again.acknowledge(again.peek(2, 10_000)[-1][0])
    again.acknowledge(again.peek(2, 10_000)[-1][0])
    assert again.lost == {"corrupt_record": 1}
    again.close()
    assert Spool(place).peek(2, 10_000) == []


@given(content=st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_a_cursor_of_any_content_loses_nothing(tmp_path_factory, content):
    place = tmp_path_factory.mktemp("cursor")
    left_behind(place, records(1, 5))
    (place / "cursor").write_bytes(content)
    again = Spool(place)
    assert seqs(again.peek(100, 10_000)) == [1, 2, 3, 4, 5]
    again.close()


def test_a_cursor_that_points_behind_or_ahead_of_the_segments_is_survived(place):
    path = left_behind(place, records(1, 5))
    cursor = segments.Cursor(place / "cursor")
    cursor.save(2, segments.Position("0000000000000009.events", 7), sync=True)
    with_seq = Spool(place)
    assert seqs(with_seq.peek(10, 1000)) == [3, 4, 5]
    with_seq.close()
    cursor.save(3, segments.Position(path.name, 10_000_000), sync=True)
    beyond = Spool(place)
    assert seqs(beyond.peek(10, 1000)) == [4, 5]
    beyond.close()
    cursor.save(4, segments.Position(path.name, 5), sync=True)  # in the middle of a line
    within = Spool(place)
    assert seqs(within.peek(10, 1000)) == [5] and within.lost == {}
    within.close()


def test_losses_that_nobody_reported_outlive_the_process(place):
    spool = Spool(place, OWNER)
    spool.save_losses({"queue_full": 3})
    spool.close()
    again = Spool(place)
    assert again.saved_losses() == {"queue_full": 3}
    again.save_losses({})
    assert again.saved_losses() == {}
    (place / "losses.json").write_text('["nonsense"]')
    assert again.saved_losses() == {}


def test_a_forked_child_holds_no_lock_of_its_parent(place):
    spool = Spool(place, OWNER)
    (ends, tell), (done, end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        spool.abandon()
        os.write(tell, b"x")
        os.close(end)
        os.read(done, 1)
        os._exit(0)
    os.read(ends, 1)
    spool._release()  # what the kernel does when the parent dies
    try:
        Spool(place).close()
    finally:
        os.write(end, b"x")
        os.waitpid(child, 0)


def test_a_directory_that_cannot_be_had_is_an_error_in_words(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="cannot be used"):
        Spool(Path(tmp_path / "file" / "agent"))


def cut_to(path, count):
    os.truncate(path, len(b"".join(path.read_bytes().splitlines(keepends=True)[:count])))


def refuse(*args, **kwargs):
    raise OSError(28, "No space left on device")
