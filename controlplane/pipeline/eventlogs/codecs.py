"""Decompression of event logs as Spark's codecs write them, in pieces: never a whole file in memory.

What can be decoded of a damaged or torn stream comes first; then Damaged says where it ended. Called by
`controlplane.pipeline.eventlogs.file_reader`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import cramjam
import xxhash
import zstandard

CHUNK_BYTES = 1 << 20
#: No block of these formats is larger; Spark writes 32 KB.
MAX_BLOCK_BYTES = 1 << 26


class CorruptStream(Exception):
    """The stream cannot be decoded further; what came before was handed out. One sentence."""


class TruncatedStream(CorruptStream):
    """The stream ends before its own end, as that of a log that is still written does."""


class Readable(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int, /) -> bytes: ...


def plain(file: Readable) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def zstd(file: Readable) -> Iterator[bytes]:
    """Any number of frames; of the last one, where it is cut off, the whole blocks."""
    unpacker: Any = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    frames = _ZstdFrameTracker(file)
    reader = unpacker.stream_reader(frames, read_size=CHUNK_BYTES >> 2, read_across_frames=True)
    while True:
        into = bytearray(CHUNK_BYTES)
        try:
            size = reader.readinto(into)
        except zstandard.ZstdError as error:
            if whole := _whole_lines(into):
                yield whole
            raise CorruptStream(f"its zstd stream is damaged: {error}") from None
        if not size:
            break
        yield bytes(into[:size])
    if not frames.whole:
        raise TruncatedStream("its last frame is cut off")


class _ZstdFrameTracker:
    """Passes a zstd stream on, and follows its frames and blocks to tell whether the last one is whole: the decoder
    says nothing of an end that comes too early. RFC 8878, section 3.1."""

    def __init__(self, file: Readable):
        self._file = file
        self._kept = b""
        self._skip = 0
        #: Bytes behind the last block of the frame that is being read; None between frames.
        self._checksum: int | None = None

    @property
    def whole(self) -> bool:
        return not self._kept and not self._skip and self._checksum is None

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self._follow(data)
        return data

    def _follow(self, data: bytes) -> None:
        buffer, at = self._kept + data, 0
        while at < len(buffer):
            if self._skip:
                step = min(self._skip, len(buffer) - at)
                at, self._skip = at + step, self._skip - step
                continue
            head = self._begun(buffer, at) if self._checksum is None else self._block(buffer, at)
            if not head:
                break  # not all of it was read yet
            at += head
        self._kept = buffer[at:]

    def _begun(self, buffer: bytes, at: int) -> int:
        """A frame begins. How long its head is; 0 where more of it has to be read first."""
        if buffer[at + 1 : at + 4] == b"\x2a\x4d\x18" and buffer[at] & 0xF0 == 0x50:  # to be skipped
            size = buffer[at + 4 : at + 8]
            if len(size) < 4:
                return 0
            self._skip = int.from_bytes(size, "little")
            return 8
        try:
            head = zstandard.frame_header_size(buffer[at : at + 18])
            told = zstandard.get_frame_parameters(buffer[at : at + 18])
        except zstandard.ZstdError:
            return 0
        self._checksum = 4 if told.has_checksum else 0
        return int(head)

    def _block(self, buffer: bytes, at: int) -> int:
        """A block begins. The same."""
        if len(buffer) < at + 3:
            return 0
        head = int.from_bytes(buffer[at : at + 3], "little")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        self._skip = 1 if kind == 1 else size  # of one byte that is repeated
        if last:
            self._skip, self._checksum = self._skip + (self._checksum or 0), None
        return 3


def _whole_lines(into: bytearray) -> bytes:
    """The whole lines that a decoder wrote before it stumbled. Behind them may be scraps of a copy that went further
    than it was valid, then zeros, which are in no text."""
    end = into.find(b"\0")
    return bytes(into[: into.rfind(b"\n", 0, end if end >= 0 else len(into)) + 1])


def lz4(file: Readable) -> Iterator[bytes]:
    """lz4-java's block stream: magic, token, both lengths, checksum, payload; an empty block ends a stream."""
    return _rechunk(_lz4_blocks(_ExactReader(file)))


def snappy(file: Readable) -> Iterator[bytes]:
    """snappy-java's stream: a header, then blocks with their length; streams may follow one another."""
    return _rechunk(_snappy_blocks(_ExactReader(file)))


def lzf(file: Readable) -> Iterator[bytes]:
    """compress-lzf's chunks: `ZV`, kind, length, and for compressed ones the length of what they hold."""
    return _rechunk(_lzf_blocks(_ExactReader(file)))


#: File extension → how it is read.
CODECS: dict[str, Callable[[Readable], Iterator[bytes]]] = {
    "": plain,
    "zstd": zstd,
    "lz4": lz4,
    "snappy": snappy,
    "lzf": lzf,
}


class _ExactReader:
    """Reads so many bytes, or says that the file ended."""

    def __init__(self, file: Readable):
        self._file = file
        self._kept = b""
        self._at = 0

    def __call__(self, size: int) -> bytes:
        """`size` bytes; nothing at the end of the file; Damaged where it ends within."""
        if len(self._kept) - self._at < size:
            self._fill(size)
        taken = self._kept[self._at : self._at + size]
        self._at += len(taken)
        if taken and len(taken) < size:
            raise CorruptStream("it is cut off within a block")
        return taken

    def _fill(self, size: int) -> None:
        pieces = [self._kept[self._at :]]
        have = len(pieces[0])
        while have < size:
            piece = self._file.read(max(CHUNK_BYTES, size - have))
            if not piece:
                break
            pieces.append(piece)
            have += len(piece)
        self._kept, self._at = b"".join(pieces), 0


def _rechunk(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Small blocks as chunks of about a megabyte; what was gathered before a damage is handed out first."""
    kept: list[bytes] = []
    size = 0
    try:
        for block in blocks:
            kept.append(block)
            size += len(block)
            if size >= CHUNK_BYTES:
                yield b"".join(kept)
                kept, size = [], 0
    except CorruptStream:
        if kept:
            yield b"".join(kept)
        raise
    if kept:
        yield b"".join(kept)


_LZ4 = struct.Struct("<8sBiiI")
#: lz4-java's, of which it keeps 28 bits.
_LZ4_SEED, _LZ4_BITS = 0x9747B28C, 0x0FFFFFFF


def _lz4_blocks(take: _ExactReader) -> Iterator[bytes]:
    while head := take(_LZ4.size):
        magic, token, packed, size, checksum = _LZ4.unpack(head)
        method = token & 0xF0
        if magic != b"LZ4Block" or method not in (0x10, 0x20):
            raise CorruptStream("an LZ4 block has no head")
        if not (0 <= packed <= MAX_BLOCK_BYTES and 0 <= size <= MAX_BLOCK_BYTES):
            raise CorruptStream("an LZ4 block has impossible lengths")
        if not size:
            continue
        payload = take(packed)
        if len(payload) < packed:
            raise CorruptStream("it is cut off within a block")
        block = payload if method == 0x10 else _decompress(cramjam.lz4.decompress_block, payload, size, "LZ4")
        if xxhash.xxh32_intdigest(block, _LZ4_SEED) & _LZ4_BITS != checksum:
            raise CorruptStream("a block of its LZ4 stream has another checksum than it says")
        yield block


_SNAPPY_MAGIC = b"\x82SNAPPY\x00"


def _snappy_blocks(take: _ExactReader) -> Iterator[bytes]:
    if take(16)[:8] != _SNAPPY_MAGIC:
        raise CorruptStream("it has no head of a snappy stream")
    while head := take(4):
        packed = int.from_bytes(head, "big")
        if head == _SNAPPY_MAGIC[:4]:  # another stream begins
            take(12)
            continue
        if packed > MAX_BLOCK_BYTES:
            raise CorruptStream("a snappy block has an impossible length")
        payload = take(packed)
        if len(payload) < packed:
            raise CorruptStream("it is cut off within a block")
        yield _decompress(lambda data, _: cramjam.snappy.decompress_raw(data), payload, None, "snappy")


def _lzf_blocks(take: _ExactReader) -> Iterator[bytes]:
    while head := take(5):
        if head[:2] != b"ZV" or head[2] > 1:
            raise CorruptStream("an LZF chunk has no head")
        packed = int.from_bytes(head[3:5], "big")
        size = int.from_bytes(take(2), "big") if head[2] else packed
        payload = take(packed)
        if len(payload) < packed:
            raise CorruptStream("it is cut off within a block")
        yield _decompress(_lzf_chunk, payload, size, "LZF") if head[2] else payload


def _decompress(unpack: Callable[[bytes, int], Any], payload: bytes, size: int | None, name: str) -> bytes:
    try:
        block = bytes(unpack(payload, size or 0))
    except (cramjam.DecompressionError, ValueError, IndexError, OverflowError) as error:
        raise CorruptStream(f"a block of its {name} stream is damaged ({str(error)[:80]})") from None
    if size is not None and len(block) != size:
        raise CorruptStream(f"a block of its {name} stream has another length than it says")
    return block


def _lzf_chunk(data: bytes, size: int) -> bytes:
    """Runs of literals, and copies of what was already written. Pure Python, a few megabytes a second."""
    out, at, end = bytearray(), 0, len(data)
    while at < end:
        control = data[at]
        at += 1
        if control < 32:
            out += data[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += data[at]
            at += 1
        back = len(out) - (((control & 31) << 8) | data[at]) - 1
        at += 1
        length += 2
        if back < 0:
            raise ValueError("a copy from before its begin")
        if back + length <= len(out):
            out += out[back : back + length]
        else:
            for place in range(back, back + length):
                out.append(out[place])
    return bytes(out)
