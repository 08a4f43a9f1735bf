"""XXH3 of 64 bits without a seed: the checksum of RocksDB's blocks. After the reference implementation; pure Python."""

from __future__ import annotations

import struct

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8"
    "fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb17"
    "0ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_M = (1 << 64) - 1
_P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def hash64(data: bytes) -> int:
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 128:
        return _up_to_128(data)
    return _up_to_240(data) if size <= 240 else _long(data)


def _read(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _M) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * 0x165667919E3779F9 & _M
    return value ^ value >> 32


def _xxh64_avalanche(value: int) -> int:
    value = (value ^ value >> 33) * _P64[1] & _M
    value = (value ^ value >> 29) * _P64[2] & _M
    return value ^ value >> 32


def _up_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        low = _read(data, 0, 8) ^ _read(_SECRET, 24, 8) ^ _read(_SECRET, 32, 8)
        high = _read(data, size - 8, 8) ^ _read(_SECRET, 40, 8) ^ _read(_SECRET, 48, 8)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _M)
    if size >= 4:
        both = _read(data, size - 4, 4) + (_read(data, 0, 4) << 32)
        return _rrmxmx(both ^ _read(_SECRET, 8, 8) ^ _read(_SECRET, 16, 8), size)
    if size:
        mixed = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _xxh64_avalanche(mixed ^ _read(_SECRET, 0, 4) ^ _read(_SECRET, 4, 4))
    return _xxh64_avalanche(_read(_SECRET, 56, 8) ^ _read(_SECRET, 64, 8))


def _rrmxmx(value: int, size: int) -> int:
    turned = (value << 49 | value >> 15) & _M, (value << 24 | value >> 40) & _M
    value = (value ^ turned[0] ^ turned[1]) * 0x9FB21C651E98DF25 & _M
    value = (value ^ (value >> 35) + size) * 0x9FB21C651E98DF25 & _M
    return value ^ value >> 28


def _mixed(data: bytes, at: int, secret: int) -> int:
    low = _read(data, at, 8) ^ _read(_SECRET, secret, 8)
    return _fold(low, _read(data, at + 8, 8) ^ _read(_SECRET, secret + 8, 8))


def _up_to_128(data: bytes) -> int:
    size = len(data)
    value = size * _P64[0]
    for i in range((size - 1) // 32, -1, -1):
        value += _mixed(data, 16 * i, 32 * i) + _mixed(data, size - 16 * (i + 1), 32 * i + 16)
    return _avalanche(value & _M)


def _up_to_240(data: bytes) -> int:
    size = len(data)
    value = _avalanche((size * _P64[0] + sum(_mixed(data, 16 * i, 16 * i) for i in range(8))) & _M)
    value += sum(_mixed(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, size // 16))
    return _avalanche((value + _mixed(data, size - 16, 136 - 17)) & _M)


def _long(data: bytes) -> int:
    acc = [_P32[2], _P64[0], _P64[1], _P64[2], _P64[3], _P32[1], _P64[4], _P32[0]]
    size, stripes = len(data), (len(_SECRET) - 64) // 8
    block = stripes * 64
    for start in range(0, (size - 1) // block * block, block):
        for i in range(stripes):
            _accumulate(acc, data, start + 64 * i, 8 * i)
        _scramble(acc)
    start = (size - 1) // block * block
    for i in range((size - 1 - start) // 64):
        _accumulate(acc, data, start + 64 * i, 8 * i)
    _accumulate(acc, data, size - 64, len(_SECRET) - 64 - 7)
    return _merged(acc, 11, size * _P64[0] & _M)


def _accumulate(acc: list[int], data: bytes, at: int, secret: int) -> None:
    lanes, keys = struct.unpack_from("<8Q", data, at), struct.unpack_from("<8Q", _SECRET, secret)
    for i in range(8):
        keyed = lanes[i] ^ keys[i]
        acc[i ^ 1] = (acc[i ^ 1] + lanes[i]) & _M
        acc[i] = (acc[i] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _M


def _scramble(acc: list[int]) -> None:
    for i, key in enumerate(struct.unpack_from("<8Q", _SECRET, len(_SECRET) - 64)):
        acc[i] = (acc[i] ^ acc[i] >> 47 ^ key) * _P32[0] & _M


def _merged(acc: list[int], secret: int, start: int) -> int:
    for i in range(4):
        keys = _read(_SECRET, secret + 16 * i, 8), _read(_SECRET, secret + 16 * i + 8, 8)
        start += _fold(acc[2 * i] ^ keys[0], acc[2 * i + 1] ^ keys[1])
    return _avalanche(start & _M)
