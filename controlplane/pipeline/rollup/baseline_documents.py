"""Convert rows of the table `baselines` to documents for `PUT /api/v1/baselines`, in chunks. Pure.

Called by `controlplane history rollup --publish`, which sends them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from controlplane.metrics.baselines import (
    FIGURES,
    HOURS,
    MAX_TEXT_CHARS,
    MAX_VALUE,
    QUANTILES,
    SHAPE,
    Baseline,
    to_json,
)

#: Queries per chunk: 2 MB of JSON at most.
QUERIES_PER_CHUNK = 100


def baseline_documents(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """A complete set, in chunks; an empty set is one empty chunk, which clears the server's baselines."""
    found = baselines_from_rows(rows)
    chunks = [
        found[position : position + QUERIES_PER_CHUNK] for position in range(0, len(found), QUERIES_PER_CHUNK)
    ] or [[]]
    documents = [[to_json(item) for item in chunk] for chunk in chunks]
    name = hashlib.sha256(repr(documents).encode()).hexdigest()[:32]
    for number, chunk in enumerate(documents):
        yield {"set": name, "chunk": number, "chunks": len(documents), "baselines": chunk}


def baselines_from_rows(rows: pa.Table) -> list[Baseline]:
    """Baselines by query; metrics and quantiles that the server does not know are left out."""
    if not rows.num_rows:
        return []
    ids = rows["query_id"].combine_chunks().dictionary_encode()
    query = ids.indices.to_numpy()
    values = np.full((len(ids.dictionary), *SHAPE), np.nan, np.float32)
    figure = _indices(rows["metric"], {name: position for position, name in enumerate(FIGURES)})
    quantile = _indices(rows["quantile"], {float(item): position for position, item in enumerate(QUANTILES)})
    hour = rows["hour_of_week"].to_numpy()
    known = (figure >= 0) & (quantile >= 0) & (hour >= 0) & (hour < HOURS)
    numbers = rows["value"].to_numpy()
    known &= np.abs(numbers) < MAX_VALUE
    values[query[known], figure[known], hour[known], quantile[known]] = numbers[known]
    _, first = np.unique(query, return_index=True)
    facts = rows.select(["query_id", "app", "query", "made_at"]).take(pa.array(first)).to_pylist()
    return [
        Baseline(
            fact["query_id"],
            (fact["app"] or "unnamed")[:MAX_TEXT_CHARS],
            fact["query"][:MAX_TEXT_CHARS],
            fact["made_at"].timestamp(),
            values[position],
        )
        for position, fact in enumerate(facts)
    ]


def _indices(column: pa.ChunkedArray, known: dict[Any, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    encoded = column.combine_chunks().dictionary_encode()
    places = np.array([known.get(item, -1) for item in encoded.dictionary.to_pylist()], np.int64)
    found: np.ndarray[Any, np.dtype[np.int64]] = places[encoded.indices.to_numpy()]
    return found
