"""Results of an evaluation as values: a vector or a matrix made of arrays. Called by the evaluator."""

from __future__ import annotations

from alerts.promql.label_sets import Integers
from alerts.promql.rows import SampleRows
from alerts.promql.series import Matrix, Sample, Series, Vector
from alerts.promql.windows import Windows


def vector(rows: SampleRows) -> Vector:
    """The only step as an instant vector."""
    cells = zip(rows.labels, rows.values[:, 0].tolist(), rows.present[:, 0].tolist(), strict=True)
    return Vector(Sample(labels, value) for labels, value, there in cells if there)


def matrix(rows: SampleRows, steps: Integers) -> Matrix:
    """All steps (milliseconds) as series."""
    times = steps / 1000
    lines = zip(rows.labels, rows.values, rows.present, strict=True)
    return Matrix(Series(labels, times[there], line[there]) for labels, line, there in lines if there.any())


def matrix_of_windows(windows: Windows) -> Matrix:
    """The windows of the only step as series."""
    samples = windows.samples
    pieces = zip(samples.labels, windows.begin[:, 0], windows.end[:, 0], strict=True)
    return Matrix(
        Series(labels, samples.times[begin:end] / 1000, samples.values[begin:end])
        for labels, begin, end in pieces
        if begin < end
    )
