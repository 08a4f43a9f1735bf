"""Segments and the cursor: what the files of a spool say, whole or not."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from listeners.delivery.segments import (
    MAX_DAMAGED_BYTES,
    SLOT_BYTES,
    Cursor,
    Position,
    decode,
    encode,
    first_seq,
    segment_name,
    set_aside,
)


@given(st.integers(1, 2**62), st.binary(max_size=200).filter(lambda line: b"\n" not in line))
def test_a_record_comes_back_as_it_was_written(seq, line):
    encoded = encode(seq, line)
    assert encoded.endswith(b"\n") and decode(encoded[:-1]) == (seq, line)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_record_are_none(raw):
    body = raw.partition(b" ")[2]
    assert decode(raw) is None or raw.startswith(b"%08x " % zlib.crc32(body))


def test_names_of_segments_sort_as_their_events_do():
    names = [segment_name(seq) for seq in (1, 9, 10, 99, 100, 10**12)]
    assert names == sorted(names) and [first_seq(name) for name in names] == [1, 9, 10, 99, 100, 10**12]


def test_the_cursor_tells_what_was_saved_last(tmp_path):
    path = tmp_path / "cursor"
    assert Cursor(path).load() == (0, Position())
    cursor = Cursor(path)
    for seq in range(1, 6):
        cursor.save(seq, Position(segment_name(seq), seq * 10), sync=seq == 5)
        assert Cursor(path).load() == (seq, Position(segment_name(seq), seq * 10))
    assert path.stat().st_size == 2 * SLOT_BYTES
    Cursor(path).save(9, Position(), sync=False)
    assert Cursor(path).load() == (9, Position())


def test_a_torn_write_of_the_cursor_leaves_the_word_before_it(tmp_path):
    path = tmp_path / "cursor"
    for cut in range(SLOT_BYTES):
        path.unlink(missing_ok=True)
        cursor = Cursor(path)
        cursor.save(1, Position(segment_name(1), 10), sync=False)
        before = path.read_bytes()
        cursor.save(2, Position(segment_name(1), 20), sync=False)
        after = path.read_bytes()
        path.write_bytes(
            before[:SLOT_BYTES] + after[SLOT_BYTES : SLOT_BYTES + cut] + before[SLOT_BYTES + cut :]
        )
        assert Cursor(path).load()[0] in (1, 2)
        restored = Cursor(path)
        restored.load()
        restored.save(3, Position(), sync=False)
        assert Cursor(path).load() == (3, Position())


def test_what_is_set_aside_is_bounded(tmp_path):
    path = tmp_path / "damaged"
    for _ in range(5):
        set_aside(path, b"x" * (MAX_DAMAGED_BYTES // 3))
    assert 0 < path.stat().st_size <= MAX_DAMAGED_BYTES
    set_aside(tmp_path / "nowhere" / "damaged", b"x")
