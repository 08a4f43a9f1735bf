"""Segments and cursor: reading intact and damaged files."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from listeners.delivery.segments import (
    MAX_DAMAGED_BYTES,
    SLOT_BYTES,
    Cursor,
    Position,
    append_damaged,
    decode,
    encode,
    first_seq,
    segment_name,
)


@given(st.integers(1, 2**62), st.binary(max_size=200).filter(lambda line: b"\n" not in line))
def test_record_round_trip(seq, line):
    encoded = encode(seq, line)
    assert encoded.endswith(b"\n") and decode(encoded[:-1]) == (seq, line)


@given(st.binary(max_size=60))
def test_bytes_that_are_not_a_record_decode_to_none(raw):
    body = raw.partition(b" ")[2]
    assert decode(raw) is None or raw.startswith(b"%08x " % zlib.crc32(body))


def test_segment_names_sort_like_their_events():
    names = [segment_name(seq) for seq in (1, 9, 10, 99, 100, 10**12)]
    assert names == sorted(names) and [first_seq(name) for name in names] == [1, 9, 10, 99, 100, 10**12]


def test_cursor_returns_the_last_saved_values(tmp_path):
    path = tmp_path / "cursor"
    assert Cursor(path).load() == (0, Position())
    cursor = Cursor(path)
    for seq in range(1, 6):
        cursor.save(seq, Position(segment_name(seq), seq * 10), sync=seq == 5)
        assert Cursor(path).load() == (seq, Position(segment_name(seq), seq * 10))
    assert path.stat().st_size == 2 * SLOT_BYTES
    Cursor(path).save(9, Position(), sync=False)
    assert Cursor(path).load() == (9, Position())


def test_torn_cursor_write_leaves_the_previous_values(tmp_path):
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


def test_damaged_bytes_are_kept_up_to_a_limit(tmp_path):
    path = tmp_path / "damaged"
    for _ in range(5):
        append_damaged(path, b"x" * (MAX_DAMAGED_BYTES // 3))
    assert 0 < path.stat().st_size <= MAX_DAMAGED_BYTES
    append_damaged(tmp_path / "nowhere" / "damaged", b"x")
