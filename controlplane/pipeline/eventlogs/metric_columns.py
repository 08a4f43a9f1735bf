"""Numbers by name, as state operators report them -> their names and numbers, quickly where the names were met before.

A provider reports the same forty names in the same order, batch after batch. They are read into a structure made of
them, which costs half of a dictionary and finds out by itself when a name is another. Called by `typed`.
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
#: Structures that are kept, and the operators whose last one is remembered. To make one costs as much as to read
#: some hundred maps: it is made of names that come a second time, and no more where they are others again and again.
MAX_STRUCTS, MAX_OPERATORS, MAX_MISSES = 64, 1024, 16
#: Longer ones are read as dictionaries, and nothing of them is remembered.
MAX_NAMES, MAX_NAME_CHARS = 256, 16_384
OperatorKey = tuple[str, str | None]


class MetricStruct(msgspec.Struct):
    """Numbers of one map; the classes made of it have a field each, by place, and the names here."""

    names: ClassVar[tuple[str, ...]] = ()


#: Numbers by name; None when there are none.
Numbers = MetricStruct | dict[str, int] | None
Decode = Callable[[msgspec.Raw], MetricStruct]
_any = msgspec.json.Decoder(dict[str, Number] | None).decode


@dataclass(slots=True)
class _CachedDecoder:
    """What the maps of one source were like the last time, and how often in a row they were not."""

    decode: Decode | None = None
    misses: int = 0


class MetricReader:
    """Reads maps of numbers. What the maps of one source, an operator of a query, were like is tried first."""

    def __init__(self) -> None:
        #: By names: None when they were met once, or when no structure can be made of them.
        self._kinds: dict[tuple[str, ...], Decode | None] = {}
        self._guesses: dict[OperatorKey, _CachedDecoder] = {}

    def read(self, source: OperatorKey, told: msgspec.Raw) -> Numbers:
        """What JSON tells. ValueError where it is no map of whole numbers of 64 bits.

        Where the same names were met in another order they come in that.
        """
        guess = self._guesses.get(source)
        if guess is None:
            guess = self._guess_of(source)
        if guess.decode is not None:
            try:
                found: Numbers = guess.decode(told)
                guess.misses = 0
                return found
            except ValueError:  # other names, or none of ours at all: that is for the next line to say
                pass
        numbers = _any(told)
        if numbers and guess.misses < MAX_MISSES:
            guess.misses += 1
            guess.decode = self._decode_of(tuple(numbers)) if guess.misses < MAX_MISSES else None
        return numbers or None

    def _guess_of(self, source: OperatorKey) -> _CachedDecoder:
        if len(self._guesses) >= MAX_OPERATORS or len(source[1] or "") > MAX_NAMES:
            return _CachedDecoder(misses=MAX_MISSES)
        return self._guesses.setdefault(source, _CachedDecoder())

    def _decode_of(self, names: tuple[str, ...]) -> Decode | None:
        if len(names) > MAX_NAMES or sum(map(len, names)) > MAX_NAME_CHARS:
            return None
        if names not in self._kinds:
            if len(self._kinds) >= MAX_STRUCTS:
                self._kinds.pop(next(iter(self._kinds)))
            self._kinds[names] = None
            return None
        known = self._kinds[names]
        if known is None:
            known = self._kinds[names] = _struct_decoder(names)
        return known


def _struct_decoder(names: tuple[str, ...]) -> Decode | None:
    """What reads maps of just these names; None where msgspec takes one for no field, as one with a quote."""
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
    """The column of the lake that holds them."""
    names = [
        None if one is None else one.names if isinstance(one, MetricStruct) else tuple(one) for one in maps
    ]
    return map_array(
        ColumnType.BIGINT_MAP,
        names,
        chain.from_iterable(_metric_values(one) for one in maps if one is not None),
    )


def _metric_values(one: MetricStruct | dict[str, int]) -> Iterable[int]:
    return msgspec.structs.astuple(one) if isinstance(one, MetricStruct) else one.values()
