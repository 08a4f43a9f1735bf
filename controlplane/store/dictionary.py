"""Train a compression dictionary on the events of this store.

The built-in dictionary holds Spark's names. A dictionary trained on the fleet's own reports holds its topics, paths
and metric names as well and halves the blobs. Called periodically by the scheduler.
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
MIN_SAMPLES = 500
MAX_SAMPLES = 1_500
RECENT_EVENTS = 50_000
#: Share of bytes that a new dictionary must save to replace the present one.
MIN_SAVING = 0.10


def train_dictionary(writer: Writer, now: float) -> int | None:
    """Add a dictionary if it compresses recent events better by `MIN_SAVING`; its id, or None.

    Takes one to two seconds of CPU. `IngestService.refresh_dictionary` puts the dictionary to use.
    """
    with writer.engine.connect() as connection:
        samples = _samples(connection)
        present = blobs.newest_packer(connection)
    if len(samples) < MIN_SAMPLES:
        return None
    content = train(samples[MIN_SAMPLES // 5 :])
    held_out = samples[: MIN_SAMPLES // 5]
    if _packed(Packer(1, content), held_out) > _packed(present, held_out) * (1 - MIN_SAVING):
        return None
    return writer.write(lambda connection: blobs.add_dictionary(connection, content, now))


def train(samples: Sequence[bytes], size: int = DICTIONARY_BYTES) -> bytes:
    """A zstd dictionary of at most `size` bytes for data like these samples."""
    return zstandard.train_dictionary(size, list(samples), level=blobs.LEVEL).as_bytes()


def _samples(connection: Connection) -> list[bytes]:
    """A random sample of the recent events, unpacked, in random order."""
    newest = connection.execute(sa.select(sa.func.max(events.c.id))).scalar() or 0
    ids = random.sample(
        range(max(1, newest - RECENT_EVENTS), newest + 1), min(MAX_SAMPLES, RECENT_EVENTS, newest)
    )
    query = sa.select(events.c.dictionary, events.c.data).where(events.c.id.in_(ids))
    unpacker = Unpacker(connection)
    unpacked = [
        blobs.pack_json(unpacker.unpack(row.dictionary, row.data)) for row in connection.execute(query)
    ]
    random.shuffle(unpacked)
    return unpacked


def _packed(packer: Packer, samples: Sequence[bytes]) -> int:
    return sum(len(packer.pack(sample)) for sample in samples)
