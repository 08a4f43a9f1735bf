"""What an expression is warned of, in Prometheus' words and with the place of the argument."""

from __future__ import annotations

import numpy as np

from alerts.promql.annotations import MAX_NOTES, Annotations
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.series import SeriesInMemory, series_of
from alerts.promql.syntax.parser import parse


def buckets(name: str, counts: dict[str, float]) -> list:
    return [series_of({"__name__": name, "le": le}, {0.0: value}) for le, value in counts.items()]


SOURCE = SeriesInMemory(
    [
        series_of({"__name__": "m", "i": "1"}, {0.0: 1.0, 60.0: 2.0}),
        series_of({"__name__": "m_total", "i": "1"}, {0.0: 1.0, 60.0: 2.0}),
        *buckets("falling_bucket", {"1": 4.0, "2": 3.0, "+Inf": 5.0}),
        *buckets("h_bucket", {"1": 1.0, "bad": 2.0, "+Inf": 5.0}),
    ]
)


def notes(text: str, at: float = 0.0) -> tuple[list[str], list[str]]:
    annotations = Annotations()
    evaluate(parse(text), SOURCE, at, annotations=annotations)
    return annotations.warnings, annotations.infos


def test_a_quantile_outside_0_and_1() -> None:
    expected = "PromQL warning: quantile value should be between 0 and 1, got"
    assert notes("quantile(2, m)") == ([f"{expected} 2 (1:10)"], [])
    assert notes("quantile_over_time(NaN, m[5m])") == ([f"{expected} NaN (1:20)"], [])
    assert notes("1 + quantile(1 + 1, m)") == ([f"{expected} 2 (1:14)"], [])
    assert notes("quantile(1, m)") == ([], [])
    assert notes("quantile(2, nothing)") == ([f"{expected} 2 (1:10)"], [])
    assert notes("quantile_over_time(2, nothing[5m])") == ([], [])


def test_a_ratio_outside_minus_1_and_1() -> None:
    capped = "PromQL warning: ratio value should be between -1 and 1, got -2, capping to -1 (1:13)"
    assert notes("limit_ratio(-2, m)") == ([capped], [])


def test_a_bucket_without_a_number() -> None:
    warning = (
        'PromQL warning: bucket label "le" is missing or has a malformed value of "bad"'
        ' for metric name "h_bucket" (1:25)'
    )
    assert notes("histogram_quantile(0.9, h_bucket)") == ([warning], [])
    unnamed = warning.replace("h_bucket", "")
    assert notes("histogram_quantile(0.9, abs(h_bucket))") == ([unnamed], [])


def test_buckets_that_fall_are_corrected() -> None:
    info = (
        "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see"
        " https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)"
        ' for metric name "falling_bucket" (1:25)'
    )
    assert notes("histogram_quantile(0.9, falling_bucket)") == ([], [info])


def test_a_rate_of_what_is_not_named_like_a_counter() -> None:
    info = (
        "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket:"
        ' "m" (1:6)'
    )
    assert notes("rate(m[5m])", 60.0) == ([], [info])
    assert notes("rate(m_total[5m])", 60.0) == ([], [])
    assert notes("rate(m[30s])", 60.0) == ([], [])  # one sample gives no rate


def test_many_notes_are_cut_and_counted() -> None:
    annotations = Annotations()
    steps = 15
    evaluate_range(parse("quantile(time(), m)"), SOURCE, 2.0, 1.0 + steps, 1.0, annotations=annotations)
    assert len(annotations.warnings) == MAX_NOTES + 1
    assert annotations.warnings[-1] == f"{steps - MAX_NOTES} more warning annotations omitted"
    assert np.unique(annotations.warnings).size == MAX_NOTES + 1
