"""Notes on an answer that do not make it fail: warnings (it is probably wrong) and infos (it may be).

The evaluator fills them; the query API sends them as `warnings` and `infos`, in Prometheus' wording.
"""

from __future__ import annotations

from alerts.matching.labels import Labels
from alerts.promql.series import METRIC_NAME, Floats
from alerts.promql.syntax.nodes import Node, begin

#: Notes of each kind; more are counted, as in Prometheus.
MAX_NOTES = 10
_COUNTER_SUFFIXES = ("_total", "_sum", "_count", "_bucket")
_MONOTONICITY = (
    "input to histogram_quantile needed to be fixed for monotonicity"
    " (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)"
)


class Annotations:
    """The notes of one evaluation, each text once, with the place in the expression."""

    def __init__(self) -> None:
        self._warnings: dict[str, None] = {}
        self._infos: dict[str, None] = {}

    @property
    def warnings(self) -> list[str]:
        """The warnings in order, at most MAX_NOTES and a line that counts the others."""
        return _cut(self._warnings, "warning")

    @property
    def infos(self) -> list[str]:
        """The infos, like `warnings`."""
        return _cut(self._infos, "info")

    def invalid_quantile(self, q: float, at: Node) -> None:
        """Note a quantile that is not between 0 and 1."""
        self._warn(f"quantile value should be between 0 and 1, got {q:g}", at)

    def invalid_ratio(self, ratio: float, capped: float, at: Node) -> None:
        """Note a ratio of `limit_ratio` that is not between -1 and 1."""
        self._warn(f"ratio value should be between -1 and 1, got {ratio:g}, capping to {capped:g}", at)

    def unreadable_bound(self, labels: Labels, at: Node) -> None:
        """Note a bucket whose `le` is no number."""
        bound = f'bucket label "le" is missing or has a malformed value of "{labels.get("le", "")}"'
        self._warn(bound + _of_metric(labels), at)

    def not_monotonic(self, labels: Labels, at: Node) -> None:
        """Note a histogram whose buckets had to be corrected."""
        self._inform(_MONOTONICITY + _of_metric(labels), at)

    def possibly_not_a_counter(self, name: str, at: Node) -> None:
        """Note a rate of a metric that is not named like a counter."""
        if name and not name.endswith(_COUNTER_SUFFIXES):
            suffixes = "/".join(_COUNTER_SUFFIXES)
            self._inform(f'metric might not be a counter, name does not end in {suffixes}: "{name}"', at)

    def _warn(self, message: str, at: Node) -> None:
        self._warnings.setdefault(f"PromQL warning: {message} {_place(at)}".replace("nan", "NaN"))

    def _inform(self, message: str, at: Node) -> None:
        self._infos.setdefault(f"PromQL info: {message} {_place(at)}")


def check_quantile(q: Floats, at: Node, annotations: Annotations) -> None:
    """Note the quantiles (one a step) that are not between 0 and 1."""
    for value in dict.fromkeys(q[~((q >= 0) & (q <= 1))].tolist()):
        annotations.invalid_quantile(value, at)


def _place(node: Node) -> str:
    place = begin(node)
    return f"({place.line}:{place.column})"


def _of_metric(labels: Labels) -> str:
    return f' for metric name "{labels.get(METRIC_NAME, "")}"'


def _cut(notes: dict[str, None], kind: str) -> list[str]:
    shown = list(notes)[:MAX_NOTES]
    left = len(notes) - len(shown)
    return [*shown, f"{left} more {kind} annotations omitted"] if left else shown
