"""Learns a new compression dictionary from what this installation stores.

The shipped dictionary knows Spark; one made from the fleet's own reports knows its topics, paths and
metric names too, and halves the blobs. Called now and then by the scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import sqlalchemy as sa
import zstandard
from sqlalchemy.engine import Connection

from controlplane.store import blobs
from controlplane.store.blobs import Packer, Unpacker
from controlplane.store.tables import events
from controlplane.store.writer import Writer

DICTIONARY_BYTES = 16 * 1024
ENOUGH = 500
SAMPLES = 1_500
RECENT = 50_000
#: A new dictionary must save this share, else the old one stays.
WORTHWHILE = 0.10


def learn(writer: Writer, now: float) -> int | None:
    """Add a dictionary when it compresses recent events clearly better; its id, or None.

    Takes a second or two of CPU; `Ingest.refresh_dictionary` makes use of it.
    """
    with writer.engine.connect() as connection:
        samples = _samples(connection)
        present = blobs.newest(connection)
    if len(samples) < ENOUGH:
        return None
    content = train(samples[ENOUGH // 5 :])
    held_out = samples[: ENOUGH // 5]
    if _packed(Packer(1, content), held_out) > _packed(present, held_out) * (1 - WORTHWHILE):
        return None
    return writer.write(lambda connection: blobs.add_dictionary(connection, content, now))


def train(samples: Sequence[bytes], size: int = DICTIONARY_BYTES) -> bytes:
    """A dictionary for data like these samples."""
    return zstandard.train_dictionary(size, list(samples), level=blobs.LEVEL).as_bytes()


def _samples(connection: Connection) -> list[bytes]:
    """Some of the recent events, as they are before they are packed, in no order."""
    newest = connection.execute(sa.select(sa.func.max(events.c.id))).scalar() or 0
    ids = random.sample(range(max(1, newest - RECENT), newest + 1), min(SAMPLES, RECENT, newest))
    query = sa.select(events.c.dictionary, events.c.data).where(events.c.id.in_(ids))
    unpacker = Unpacker(connection)
    unpacked = [
        blobs.pack_json(unpacker.unpack(row.dictionary, row.data)) for row in connection.execute(query)
    ]
    random.shuffle(unpacked)
    return unpacked


def _packed(packer: Packer, samples: Sequence[bytes]) -> int:
    return sum(len(packer.pack(sample)) for sample in samples)
