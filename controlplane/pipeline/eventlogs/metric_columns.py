"""Decode the metric maps of state operators quickly where the same names occur repeatedly.

A state store provider reports the same forty names in the same order, batch after batch. They are decoded
into a generated struct, which costs half of a dictionary and fails by itself when a name differs. Called by
`columnar_decoder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, ClassVar

import msgspec
import pyarrow as pa

from controlplane.events.progress import MAX_WHOLE
from controlplane.lake.arrays import map_array
from controlplane.lake.schema import ColumnType

Number = Annotated[int, msgspec.Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)]
#: Limits of cached structs and of operators whose last decoder is cached. Creating a struct costs as much as
#: decoding some hundred maps: it is created when names occur a second time, and no more for operators whose
#: names keep changing.
MAX_STRUCTS, MAX_OPERATORS, MAX_MISSES = 64, 1024, 16
#: Larger maps are decoded as dictionaries and not cached.
MAX_NAMES, MAX_NAME_CHARS = 256, 16_384
OperatorKey = tuple[str, str | None]


class MetricStruct(msgspec.Struct):
    """Numbers of one map; generated subclasses have one field per name, in order."""

    names: ClassVar[tuple[str, ...]] = ()


#: Numbers by name; None when there are none.
Numbers = MetricStruct | dict[str, int] | None
Decode = Callable[[msgspec.Raw], MetricStruct]
_any = msgspec.json.Decoder(dict[str, Number] | None).decode


@dataclass(slots=True)
class _CachedDecoder:
    """The last decoder of an operator, and how often in a row it failed."""

    decode: Decode | None = None
    misses: int = 0


class MetricReader:
    """Decodes maps of numbers. The last decoder of the same operator is tried first."""

    def __init__(self) -> None:
        #: Names → decoder; None when they occurred once, or when no struct can be generated.
        self._structs: dict[tuple[str, ...], Decode | None] = {}
        self._cached: dict[OperatorKey, _CachedDecoder] = {}

    def read(self, source: OperatorKey, raw: msgspec.Raw) -> Numbers:
        """Decode JSON. ValueError where it is not a map of 64-bit integers.

        Where the same names occurred in another order, that order is used.
        """
        cached = self._cached.get(source)
        if cached is None:
            cached = self._cached_for(source)
        if cached.decode is not None:
            try:
                found: Numbers = cached.decode(raw)
                cached.misses = 0
                return found
            except ValueError:  # other names, or no valid map: the next line decides
                pass
        numbers = _any(raw)
        if numbers and cached.misses < MAX_MISSES:
            cached.misses += 1
            cached.decode = self._decode_of(tuple(numbers)) if cached.misses < MAX_MISSES else None
        return numbers or None

    def _cached_for(self, source: OperatorKey) -> _CachedDecoder:
        if len(self._cached) >= MAX_OPERATORS or len(source[1] or "") > MAX_NAMES:
            return _CachedDecoder(misses=MAX_MISSES)
        return self._cached.setdefault(source, _CachedDecoder())

    def _decode_of(self, names: tuple[str, ...]) -> Decode | None:
        if len(names) > MAX_NAMES or sum(map(len, names)) > MAX_NAME_CHARS:
            return None
        if names not in self._structs:
            if len(self._structs) >= MAX_STRUCTS:
                self._structs.pop(next(iter(self._structs)))
            self._structs[names] = None
            return None
        known = self._structs[names]
        if known is None:
            known = self._structs[names] = _struct_decoder(names)
        return known


def _struct_decoder(names: tuple[str, ...]) -> Decode | None:
    """A decoder for maps with exactly these names; None where msgspec rejects one as a field, such as one
    with a quote.
    """
    fields = [(f"n{place}", Number, msgspec.field(name=name)) for place, name in enumerate(names)]
    try:
        kind = msgspec.defstruct(
            "Laid",
            fields,
            bases=(MetricStruct,),
            namespace={"names": names},
            forbid_unknown_fields=True,
            gc=False,
        )
    except ValueError:
        return None
    made: Decode = msgspec.json.Decoder(kind).decode  # type: ignore[assignment]
    return made


def metrics_array(maps: Sequence[Numbers]) -> pa.MapArray:
    """The lake column for these maps."""
    names = [
        None if item is None else item.names if isinstance(item, MetricStruct) else tuple(item)
        for item in maps
    ]
    return map_array(
        ColumnType.BIGINT_MAP,
        names,
        chain.from_iterable(_metric_values(item) for item in maps if item is not None),
    )


def _metric_values(item: MetricStruct | dict[str, int]) -> Iterable[int]:
    return msgspec.structs.astuple(item) if isinstance(item, MetricStruct) else item.values()
