"""Decompress event logs in the formats of Spark's codecs, in chunks: a file is never held in memory as a
whole.

Of a damaged or truncated stream the decodable part is returned first; then CorruptStream reports where it
ends. Called by `file_reader`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import cramjam
import xxhash
import zstandard

CHUNK_BYTES = 1 << 20
#: Blocks of these formats are never larger; Spark writes 32 KB.
MAX_BLOCK_BYTES = 1 << 26


class CorruptStream(Exception):
    """The stream cannot be decoded further; the data before the damage was returned. One sentence."""


class TruncatedStream(CorruptStream):
    """The stream ends early, as that of a log in progress does."""


class Readable(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int, /) -> bytes: ...


def plain(file: Readable) -> Iterator[bytes]:
    """An uncompressed file."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def zstd(file: Readable) -> Iterator[bytes]:
    """Any number of frames; of a truncated last frame its complete blocks."""
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
            raise CorruptStream(f"the zstd stream is damaged: {error}") from None
        if not size:
            break
        yield bytes(into[:size])
    if not frames.whole:
        raise TruncatedStream("the last frame is truncated")


class _ZstdFrameTracker:
    """Pass a zstd stream on and track its frames and blocks to detect a truncated last frame.

    The decoder does not report an early end. Format: RFC 8878, section 3.1.
    """

    def __init__(self, file: Readable):
        self._file = file
        self._kept = b""
        self._skip = 0
        #: Bytes after the last block of the current frame; None between frames.
        self._checksum: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the last frame is complete."""
        return not self._kept and not self._skip and self._checksum is None

    def read(self, size: int = -1, /) -> bytes:
        """Read from the file and track the frames."""
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
            header = self._begun(buffer, at) if self._checksum is None else self._block(buffer, at)
            if not header:
                break  # incomplete: read more
            at += header
        self._kept = buffer[at:]

    def _begun(self, buffer: bytes, at: int) -> int:
        """Start a frame. Length of its header; 0 where more data is needed."""
        if buffer[at + 1 : at + 4] == b"\x2a\x4d\x18" and buffer[at] & 0xF0 == 0x50:  # skippable frame
            size = buffer[at + 4 : at + 8]
            if len(size) < 4:
                return 0
            self._skip = int.from_bytes(size, "little")
            return 8
        try:
            header = zstandard.frame_header_size(buffer[at : at + 18])
            parameters = zstandard.get_frame_parameters(buffer[at : at + 18])
        except zstandard.ZstdError:
            return 0
        self._checksum = 4 if parameters.has_checksum else 0
        return int(header)

    def _block(self, buffer: bytes, at: int) -> int:
        """Start a block. Length of its header; 0 where more data is needed."""
        if len(buffer) < at + 3:
            return 0
        header = int.from_bytes(buffer[at : at + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        self._skip = 1 if kind == 1 else size  # one repeated byte
        if last:
            self._skip, self._checksum = self._skip + (self._checksum or 0), None
        return 3


def _whole_lines(into: bytearray) -> bytes:
    """The complete lines that a decoder wrote before an error.

    After them may be remains of a copy beyond the valid data, then zeros, which do not occur in text.
    """
    end = into.find(b"\0")
    return bytes(into[: into.rfind(b"\n", 0, end if end >= 0 else len(into)) + 1])


def lz4(file: Readable) -> Iterator[bytes]:
    """lz4-java's block stream: magic, token, both lengths, checksum, payload; an empty block ends a
    stream.
    """
    return _rechunk(_lz4_blocks(_ExactReader(file)))


def snappy(file: Readable) -> Iterator[bytes]:
    """snappy-java's stream: a header, then blocks with their length; streams may be concatenated."""
    return _rechunk(_snappy_blocks(_ExactReader(file)))


def lzf(file: Readable) -> Iterator[bytes]:
    """compress-lzf's chunks: `ZV`, kind, length, and for compressed ones the uncompressed length."""
    return _rechunk(_lzf_blocks(_ExactReader(file)))


#: File extension → decoder.
CODECS: dict[str, Callable[[Readable], Iterator[bytes]]] = {
    "": plain,
    "zstd": zstd,
    "lz4": lz4,
    "snappy": snappy,
    "lzf": lzf,
}


class _ExactReader:
    """Reads an exact number of bytes, unless the file ends."""

    def __init__(self, file: Readable):
        self._file = file
        self._kept = b""
        self._at = 0

    def __call__(self, size: int) -> bytes:
        """`size` bytes; empty at the end of the file; CorruptStream where it ends within."""
        if len(self._kept) - self._at < size:
            self._fill(size)
        taken = self._kept[self._at : self._at + size]
        self._at += len(taken)
        if taken and len(taken) < size:
            raise CorruptStream("the file is truncated within a block")
        return taken

    def _fill(self, size: int) -> None:
        pieces = [self._kept[self._at :]]
        size_read = len(pieces[0])
        while size_read < size:
            piece = self._file.read(max(CHUNK_BYTES, size - size_read))
            if not piece:
                break
            pieces.append(piece)
            size_read += len(piece)
        self._kept, self._at = b"".join(pieces), 0


def _rechunk(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Join small blocks to chunks of about a megabyte; data before damage is returned first."""
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
#: lz4-java's seed; it keeps 28 bits of the checksum.
_LZ4_SEED, _LZ4_BITS = 0x9747B28C, 0x0FFFFFFF


def _lz4_blocks(take: _ExactReader) -> Iterator[bytes]:
    while header := take(_LZ4.size):
        magic, token, packed, size, checksum = _LZ4.unpack(header)
        method = token & 0xF0
        if magic != b"LZ4Block" or method not in (0x10, 0x20):
            raise CorruptStream("an LZ4 block has no header")
        if not (0 <= packed <= MAX_BLOCK_BYTES and 0 <= size <= MAX_BLOCK_BYTES):
            raise CorruptStream("an LZ4 block has impossible lengths")
        if not size:
            continue
        payload = take(packed)
        if len(payload) < packed:
            raise CorruptStream("the file is truncated within a block")
        block = payload if method == 0x10 else _decompress(cramjam.lz4.decompress_block, payload, size, "LZ4")
        if xxhash.xxh32_intdigest(block, _LZ4_SEED) & _LZ4_BITS != checksum:
            raise CorruptStream("the checksum of an LZ4 block does not match")
        yield block


_SNAPPY_MAGIC = b"\x82SNAPPY\x00"


def _snappy_blocks(take: _ExactReader) -> Iterator[bytes]:
    if take(16)[:8] != _SNAPPY_MAGIC:
        raise CorruptStream("the header of the snappy stream is missing")
    while header := take(4):
        packed = int.from_bytes(header, "big")
        if header == _SNAPPY_MAGIC[:4]:  # another stream starts
            take(12)
            continue
        if packed > MAX_BLOCK_BYTES:
            raise CorruptStream("a snappy block has an impossible length")
        payload = take(packed)
        if len(payload) < packed:
            raise CorruptStream("the file is truncated within a block")
        yield _decompress(lambda data, _: cramjam.snappy.decompress_raw(data), payload, None, "snappy")


def _lzf_blocks(take: _ExactReader) -> Iterator[bytes]:
    while header := take(5):
        if header[:2] != b"ZV" or header[2] > 1:
            raise CorruptStream("an LZF chunk has no header")
        packed = int.from_bytes(header[3:5], "big")
        size = int.from_bytes(take(2), "big") if header[2] else packed
        payload = take(packed)
        if len(payload) < packed:
            raise CorruptStream("the file is truncated within a block")
        yield _decompress(_lzf_chunk, payload, size, "LZF") if header[2] else payload


def _decompress(unpack: Callable[[bytes, int], Any], payload: bytes, size: int | None, name: str) -> bytes:
    try:
        block = bytes(unpack(payload, size or 0))
    except (cramjam.DecompressionError, ValueError, IndexError, OverflowError) as error:
        raise CorruptStream(f"a block of the {name} stream is damaged ({str(error)[:80]})") from None
    if size is not None and len(block) != size:
        raise CorruptStream(f"the length of a {name} block does not match")
    return block


def _lzf_chunk(data: bytes, size: int) -> bytes:
    """Literal runs and back-references. Pure Python, a few megabytes per second."""
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
            raise ValueError("a back-reference before the start")
        if back + length <= len(out):
            out += out[back : back + length]
        else:
            for place in range(back, back + length):
                out.append(out[place])
    return bytes(out)
