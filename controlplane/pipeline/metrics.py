"""Numbers by name, as state operators report them -> their names and numbers, quickly where the names were met before.

A provider reports the same forty names in the same order, batch after batch. They are read into a structure made of
them, which costs half of a dictionary and finds out by itself when a name is another. Called by `typed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Annotated, ClassVar

import msgspec
import pyarrow as pa

from controlplane.lake.arrays import map_of
from controlplane.lake.schema import Type
from controlplane.progress import MAX_WHOLE

Number = Annotated[int, msgspec.Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)]
#: To make a structure costs as much as to read some hundred maps. What has other names each time has none.
MOST_KINDS = 64
MOST_NAMES = 256


class Laid(msgspec.Struct):
    """Numbers of one map; the classes made of it have a field each, by place, and the names here."""

    names: ClassVar[tuple[str, ...]] = ()


#: Numbers by name; None when there are none.
Numbers = Laid | dict[str, int] | None
Decode = Callable[[msgspec.Raw], Laid]
_any = msgspec.json.Decoder(dict[str, Number] | None).decode


class Reader:
    """Reads maps of numbers. What the maps of one `source` were like the last time is tried first."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], Decode] = {}
        self._last: dict[str | None, Decode] = {}

    def read(self, source: str | None, told: msgspec.Raw) -> Numbers:
        """What JSON tells. ValueError where it is no map of whole numbers of 64 bits.

        Where the same names were met in another order they come in that.
        """
        decode = self._last.get(source)
        if decode is not None:
            try:
                return decode(told)
            except ValueError:  # other names, or none of ours at all: that is for the next line to say
                pass
        found = _any(told)
        decode = self._decode_of(tuple(found)) if found else None
        if decode is None:
            return found or None
        if len(self._last) < MOST_KINDS:
            self._last[source] = decode
        return decode(told)

    def _decode_of(self, names: tuple[str, ...]) -> Decode | None:
        known = self._kinds.get(names)
        if known is None and len(self._kinds) < MOST_KINDS and len(names) <= MOST_NAMES:
            fields = [(f"n{place}", Number, msgspec.field(name=name)) for place, name in enumerate(names)]
            try:
                kind = msgspec.defstruct(
                    "Laid",
                    fields,
                    bases=(Laid,),
                    namespace={"names": names},
                    forbid_unknown_fields=True,
                    gc=False,
                )
            except ValueError:  # a name that msgspec takes for no field, as one with a quote
                return None
            decode: Decode = msgspec.json.Decoder(kind).decode  # type: ignore[assignment]
            known = self._kinds[names] = decode
        return known


def column_of(maps: Sequence[Numbers]) -> pa.MapArray:
    """The column of the lake that holds them."""
    names = [None if one is None else one.names if isinstance(one, Laid) else tuple(one) for one in maps]
    return map_of(
        Type.WHOLES, names, chain.from_iterable(_numbers_of(one) for one in maps if one is not None)
    )


def _numbers_of(one: Laid | dict[str, int]) -> Iterable[int]:
    return msgspec.structs.astuple(one) if isinstance(one, Laid) else one.values()
