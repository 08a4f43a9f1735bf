"""The spool on disk: acknowledged events never come back, no other is lost, damage is counted.

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


def left_behind(spool_dir, *rows):
    spool = Spool(spool_dir, OWNER)
    for row in rows:
        spool.append(row)
    spool.close()
    return sorted(spool_dir.glob("*.events"))[-1]


@pytest.fixture
def spool_dir(tmp_path):
    return tmp_path / "spool" / "agent"


def test_next_process_continues_after_the_last_acknowledgement(spool_dir):
    spool = Spool(spool_dir, OWNER)
    spool.append(records(1, 10))
    spool.peek(4, 10_000)
    spool.acknowledge(4)
    spool.close()
    reopened = Spool(spool_dir)
    assert reopened.high_seq == 10 and reopened.settled_seq == 4 and reopened.events == 6
    assert seqs(reopened.peek(100, 10_000)) == [5, 6, 7, 8, 9, 10]


def test_one_process_at_a_time(spool_dir):
    spool = Spool(spool_dir, OWNER)
    with pytest.raises(SpoolError, match="in use"):
        Spool(spool_dir)
    spool.close()
    Spool(spool_dir).close()


def test_read_segments_are_deleted_the_current_one_when_full(spool_dir):
    spool = Spool(spool_dir, OWNER, segment_bytes=100)
    for seq in range(1, 11):
        spool.append(records(seq, 1, size=50))
    assert len(list(spool_dir.glob("*.events"))) > 3
    spool.peek(100, 10_000)
    spool.acknowledge(10)
    assert len(list(spool_dir.glob("*.events"))) <= 1
    spool.append(records(11, 1))
    assert seqs(spool.peek(100, 10_000)) == [11]


def test_oldest_events_are_dropped_and_counted_at_the_limit(spool_dir):
    spool = Spool(spool_dir, OWNER, max_bytes=1000, segment_bytes=200)
    for seq in range(1, 31):
        spool.append(records(seq, 1, size=50))
    kept = seqs(spool.peek(100, 100_000))
    assert kept[-1] == 30 and kept == list(range(kept[0], 31))
    assert spool.lost["spool_full"] == 30 - len(kept) and spool.bytes <= 1300
    assert spool.events == len(kept)


def test_acknowledged_events_in_a_dropped_segment_are_not_lost(spool_dir):
    spool = Spool(spool_dir, OWNER, max_bytes=1000, segment_bytes=200)
    spool.append(records(1, 3, size=50))
    spool.acknowledge(spool.peek(2, 10_000)[-1][0])
    for seq in range(4, 31):
        spool.append(records(seq, 1, size=50))
    assert spool.lost["spool_full"] == 30 - 2 - len(spool.peek(100, 100_000))


def test_recovered_disk_gets_the_events_from_memory(spool_dir, monkeypatch):
    spool = Spool(spool_dir, OWNER)
    spool.append(records(1, 2))
    with monkeypatch.context() as patched:
        patched.setattr(spool, "_write", refuse)
        spool.append(records(3, 2))
        assert "No space left" in spool.trouble
    spool.append(records(5, 2))
    assert spool.trouble is None and spool._overflow.events == 0
    spool.close()
    assert seqs(Spool(spool_dir).peek(100, 10_000)) == [1, 2, 3, 4, 5, 6]


def test_events_beyond_the_memory_limit_are_counted_as_lost(spool_dir, monkeypatch):
    spool = Spool(spool_dir, OWNER)
    monkeypatch.setattr(spool, "_write", refuse)
    monkeypatch.setattr(spool._overflow, "_max_events", 3)
    for seq in range(1, 6):
        spool.append(records(seq, 1))
    assert seqs(spool.peek(10, 10_000)) == [3, 4, 5] and spool.lost == {"disk_unusable": 2}


def test_missing_disk_is_used_once_it_appears(tmp_path):
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


def test_segments_undeletable_on_a_read_only_disk_are_not_sent_again(spool_dir, monkeypatch):
    spool = Spool(spool_dir, OWNER)
    spool.append(records(1, 5))
    with monkeypatch.context() as patched:
        spool._close_file()
        spool._release()
        for owner, name in ((segments.Cursor, "save"), (Path, "unlink"), (locks, "acquire")):
            patched.setattr(owner, name, refuse)
        spool.append(records(6, 3))
        assert spool.trouble and seqs(spool.peek(100, 10_000)) == list(range(1, 9))
        spool.acknowledge(8)
    assert list(spool_dir.glob("*.events"))
    spool.append(records(9, 2))
    assert spool.trouble is None and seqs(spool.peek(100, 10_000)) == [9, 10]
    spool.acknowledge(10)
    assert spool.lost == {} and spool.events == 0
    assert len(list(spool_dir.glob("*.events"))) == 1


def test_deleted_directory_without_unsent_events_loses_nothing(spool_dir):
    spool = Spool(spool_dir, OWNER, segment_bytes=50)
    spool.append(records(1, 5))
    spool.acknowledge(spool.peek(100, 10_000)[-1][0])
    assert not list(spool_dir.glob("*.events"))
    shutil.rmtree(spool_dir)
    spool.append(records(6, 2))
    assert seqs(spool.peek(100, 10_000)) == [6, 7] and spool.settled_seq == 5
    spool.acknowledge(7)
    assert spool.lost == {}


def test_torn_record_that_was_rewritten_is_not_lost(spool_dir):
    class Full:
        """Writes a part of the next append."""

        def __init__(self, file):
            self._file, self.name = file, file.name

        def write(self, blob):
            return self._file.write(blob[: len(blob) // 2 + 10])

        def fileno(self):
            return self._file.fileno()

        def close(self):
            self._file.close()

    spool = Spool(spool_dir, OWNER)
    spool.append(records(1, 1))
    spool._file = Full(spool._file)
    spool.append(records(2, 3))
    assert spool.trouble
    spool.append(records(5, 1))
    spool.abandon()
    reopened = Spool(spool_dir)
    batch = reopened.peek(100, 10_000)
    reopened.acknowledge(batch[-1][0])
    assert set(seqs(batch)) == {1, 2, 3, 4, 5} and reopened.lost == {} and reopened.events == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is Linux's")
def test_full_disk_is_survived(spool_dir):
    spool = Spool(spool_dir, OWNER)
    (spool_dir / "0000000000000001.events").symlink_to("/dev/full")
    spool.append(records(1, 2))
    assert seqs(spool.peek(100, 10_000)) == [1, 2] and spool.trouble


def test_cursor_and_deletions_work_on_a_full_disk(spool_dir, monkeypatch):
    spool = Spool(spool_dir, OWNER, segment_bytes=100)
    for seq in range(1, 11):
        spool.append(records(seq, 1, size=50))
    monkeypatch.setattr(segments.Cursor, "save", refuse)
    spool.peek(8, 10_000)
    spool.acknowledge(8)
    assert len(list(spool_dir.glob("*.events"))) <= 2 and seqs(spool.peek(10, 10_000)) == [9, 10]


@pytest.mark.parametrize("keeps_file", [True, False])
def test_deleted_directory_is_recreated_and_the_loss_counted(spool_dir, keeps_file):
    spool = Spool(spool_dir, OWNER)
    spool.append(records(1, 5))
    spool.peek(2, 10_000)
    spool.acknowledge(2)
    shutil.rmtree(spool_dir)
    if not keeps_file:
        spool._close_file()
    spool.append(records(6, 2))
    assert seqs(spool.peek(10, 10_000)) == [6, 7]
    assert spool.lost == {"spool_removed": 3}
    with pytest.raises(SpoolError, match="in use"):
        Spool(spool_dir)
    spool.close()
    assert seqs(Spool(spool_dir).peek(10, 10_000)) == [6, 7]


def test_deleted_directory_leaves_no_events_to_wait_for(spool_dir):
    spool = Spool(spool_dir, OWNER)
    spool.append(records(1, 5))
    shutil.rmtree(spool_dir)
    assert spool.peek(10, 10_000) == [] and spool.events == 0
    assert spool.lost == {"spool_removed": 5}


def test_unreadable_segment_is_retried_and_finally_discarded(spool_dir, monkeypatch):
    spool = Spool(spool_dir, OWNER, segment_bytes=50)
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


def test_truncation_between_records_is_counted_once(spool_dir):
    spool = Spool(spool_dir, OWNER)
    for seq in range(1, 11):
        spool.append(records(seq, 1, size=100))
    path = next(spool_dir.glob("*.events"))
    cut_to(path, 5)
    assert seqs(spool.peek(100, 10_000)) == [1, 2, 3, 4, 5]
    spool.append(records(11, 2))
    spool.acknowledge(5)
    assert seqs(spool.peek(100, 10_000)) == [11, 12]
    spool.acknowledge(12)
    assert spool.peek(100, 10_000) == [] and spool.events == 0 and spool.lost == {"corrupt_record": 5}


@pytest.mark.parametrize("sent", [0, 3, 8])
def test_truncated_file_with_later_appends_loses_only_the_cut_part(spool_dir, sent):
    spool = Spool(spool_dir, OWNER)
    for seq in range(1, 11):
        spool.append(records(seq, 1, size=100))
    if sent:
        spool.peek(sent, 10_000)
        spool.acknowledge(sent)
    cut_to(next(spool_dir.glob("*.events")), 5)
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


def test_events_dropped_from_memory_are_not_counted_twice(spool_dir, monkeypatch):
    spool = Spool(spool_dir, OWNER)
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
def test_events_dropped_in_flight_are_lost_only_if_not_stored(spool_dir, arrives):
    spool = Spool(spool_dir, OWNER, max_bytes=4000, segment_bytes=1000)
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


def test_record_torn_at_any_byte_loses_only_itself(spool_dir):
    path = left_behind(spool_dir, records(1, 3))
    whole = path.read_bytes()
    last = len(whole) - len(whole.splitlines(keepends=True)[-1])
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        (spool_dir / "cursor").unlink(missing_ok=True)
        reopened = Spool(spool_dir)
        assert seqs(reopened.peek(100, 10_000)) == [1, 2]
        reopened.append(records(4, 1))  # a new segment: the torn tail hides nothing
        assert seqs(reopened.peek(100, 10_000)) == [1, 2, 4]
        reopened.acknowledge(4)
        assert reopened.lost == ({"corrupt_record": 1} if cut > last else {}) and reopened.events == 0
        reopened.close()
        shutil.rmtree(spool_dir)
        spool_dir.mkdir()
        path.write_bytes(whole)


def test_torn_record_does_not_join_the_next_append(spool_dir):
    path = left_behind(spool_dir, records(1, 1))
    path.write_bytes(path.read_bytes()[:-9])
    reopened = Spool(spool_dir)
    reopened.append(records(1, 2))
    assert seqs(reopened.peek(100, 10_000)) in ([1, 2], [2])
    assert reopened.lost.get("corrupt_record", 0) <= 1
    reopened.close()


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_flipped_bit_damages_at_most_two_records_each_counted(tmp_path_factory, position, bit):
    spool_dir = tmp_path_factory.mktemp("flip")
    path = left_behind(spool_dir, records(1, 6))
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(bytes(content))
    reopened = Spool(spool_dir)
    batch = reopened.peek(100, 10_000)
    assert len(batch) >= 4 and all(record in records(1, 6) for record in batch)
    reopened.acknowledge(reopened.high_seq)
    at_the_end = max(seqs(batch)) < 6  # no later record shows how many are missing
    assert reopened.lost["corrupt_record"] == 6 - len(batch) or (
        at_the_end and reopened.lost["corrupt_record"] == 1
    )
    assert (spool_dir / "damaged").stat().st_size > 0
    reopened.close(remove=True)
    assert not spool_dir.exists()
    assert spool_dir.with_name(spool_dir.name + ".damaged").stat().st_size > 0


def test_damaged_record_is_counted_once(spool_dir):
    path = left_behind(spool_dir, records(1, 4))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"garbage\n" + b"".join(lines[2:]))
    for _ in range(3):
        reopened = Spool(spool_dir)
        assert seqs(reopened.peek(2, 10_000)) == [1, 3]
        reopened.close()
    reopened = Spool(spool_dir)
    reopened.acknowledge(reopened.peek(2, 10_000)[-1][0])
    reopened.acknowledge(reopened.peek(2, 10_000)[-1][0])
    assert reopened.lost == {"corrupt_record": 1}
    reopened.close()
    assert Spool(spool_dir).peek(2, 10_000) == []


@given(content=st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_arbitrary_cursor_content_loses_nothing(tmp_path_factory, content):
    spool_dir = tmp_path_factory.mktemp("cursor")
    left_behind(spool_dir, records(1, 5))
    (spool_dir / "cursor").write_bytes(content)
    reopened = Spool(spool_dir)
    assert seqs(reopened.peek(100, 10_000)) == [1, 2, 3, 4, 5]
    reopened.close()


def test_cursor_outside_the_segments_is_survived(spool_dir):
    path = left_behind(spool_dir, records(1, 5))
    cursor = segments.Cursor(spool_dir / "cursor")
    cursor.save(2, segments.Position("0000000000000009.events", 7), sync=True)
    with_seq = Spool(spool_dir)
    assert seqs(with_seq.peek(10, 1000)) == [3, 4, 5]
    with_seq.close()
    cursor.save(3, segments.Position(path.name, 10_000_000), sync=True)
    beyond = Spool(spool_dir)
    assert seqs(beyond.peek(10, 1000)) == [4, 5]
    beyond.close()
    cursor.save(4, segments.Position(path.name, 5), sync=True)  # in the middle of a line
    within = Spool(spool_dir)
    assert seqs(within.peek(10, 1000)) == [5] and within.lost == {}
    within.close()


def test_unreported_losses_outlive_the_process(spool_dir):
    spool = Spool(spool_dir, OWNER)
    spool.save_losses({"queue_full": 3})
    spool.close()
    reopened = Spool(spool_dir)
    assert reopened.saved_losses() == {"queue_full": 3}
    reopened.save_losses({})
    assert reopened.saved_losses() == {}
    (spool_dir / "losses.json").write_text('["nonsense"]')
    assert reopened.saved_losses() == {}


def test_forked_child_does_not_hold_the_parents_lock(spool_dir):
    spool = Spool(spool_dir, OWNER)
    (ends, write_end), (done, end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        spool.abandon()
        os.write(write_end, b"x")
        os.close(end)
        os.read(done, 1)
        os._exit(0)
    os.read(ends, 1)
    spool._release()  # as the kernel does when the parent dies
    try:
        Spool(spool_dir).close()
    finally:
        os.write(end, b"x")
        os.waitpid(child, 0)


def test_unusable_directory_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="cannot be used"):
        Spool(Path(tmp_path / "file" / "agent"))


def cut_to(path, count):
    os.truncate(path, len(b"".join(path.read_bytes().splitlines(keepends=True)[:count])))


def refuse(*args, **kwargs):
    raise OSError(28, "No space left on device")
