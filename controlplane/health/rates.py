"""Input and processing rates of a batch. Pure.

Spark rounds its rates to one decimal: one row a minute reads 0.0 a second, one row in 12 s reads 0.1. Rates below
`EXACT_FROM` are computed from rows and times instead. Called by the API and by `controlplane.metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.model import ProgressSample

#: Rows a second from which Spark's own rate is exact to 5 %.
EXACT_FROM = 1.0


def input_rate(samples: Sequence[ProgressSample]) -> float | None:
    """Rows a second that the newest batch read since the trigger before it; None if unknown. `samples`: oldest first."""
    if not samples:
        return None
    last, before = samples[-1], samples[-2] if len(samples) > 1 else None
    if not _is_rounded(last, last.input_rows_per_second) or before is None:
        return last.input_rows_per_second
    follows = before.run_id == last.run_id and last.batch_id - before.batch_id in (0, 1)
    seconds = last.trigger_at - before.trigger_at
    return last.input_rows / seconds if follows and seconds > 0 else last.input_rows_per_second


def processing_rate(last: ProgressSample) -> float | None:
    """Rows a second of the time that the batch took; None if unknown."""
    rate = last.processed_rows_per_second
    return last.input_rows / last.duration if _is_rounded(last, rate) and last.duration > 0 else rate


def source_rates(
    samples: Sequence[ProgressSample], rows: int | None, read: float | None, processed: float | None
) -> dict[str, float | None]:
    """Spark's rates `read` and `processed` of one source of the newest batch, which read `rows`; low ones exact."""
    reported = {"input_rows_per_second": read, "processed_rows_per_second": processed}
    if not samples or not rows:
        return reported
    last, share = samples[-1], rows / max(1, samples[-1].input_rows)
    whole = {"input_rows_per_second": input_rate(samples), "processed_rows_per_second": processing_rate(last)}
    return {
        name: rate * share if _is_rounded(last, getattr(last, name)) and rate is not None else reported[name]
        for name, rate in whole.items()
    }


def _is_rounded(sample: ProgressSample, rate: float | None) -> bool:
    return sample.input_rows > 0 and (rate is None or rate < EXACT_FROM)
