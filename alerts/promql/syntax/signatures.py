"""Signatures of every PromQL function and aggregation; operators by kind."""

from __future__ import annotations

from dataclasses import dataclass

from alerts.promql.syntax.nodes import RangeEdges, ValueType

_SCALAR, _VECTOR, _MATRIX, _STRING = ValueType.SCALAR, ValueType.VECTOR, ValueType.MATRIX, ValueType.STRING


@dataclass(frozen=True, slots=True)
class Signature:
    """Argument and result types. `optional`: number of optional last arguments. `endless`: the last may repeat."""

    arguments: tuple[ValueType, ...]
    returns: ValueType = _VECTOR
    optional: int = 0
    endless: bool = False


def _each(signature: Signature, names: str) -> dict[str, Signature]:
    return dict.fromkeys(names.split(), signature)


FUNCTIONS: dict[str, Signature] = {
    **_each(
        Signature((_VECTOR,)),
        "abs absent acos acosh asin asinh atan atanh ceil cos cosh deg exp floor ln log10 log2 rad sgn sin sinh"
        " sort sort_desc sqrt tan tanh timestamp",
    ),
    **_each(
        Signature((_MATRIX,)),
        "absent_over_time avg_over_time changes count_over_time delta deriv first_over_time idelta increase irate"
        " last_over_time mad_over_time max_over_time min_over_time present_over_time rate resets stddev_over_time"
        " stdvar_over_time sum_over_time ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time"
        " ts_of_min_over_time",
    ),
    **_each(
        Signature((_VECTOR,), optional=1),
        "day_of_month day_of_week day_of_year days_in_month hour minute month year",
    ),
    **_each(Signature((_VECTOR, _SCALAR)), "clamp_max clamp_min"),
    **_each(Signature((), returns=_SCALAR), "end pi range start step time"),
    "clamp": Signature((_VECTOR, _SCALAR, _SCALAR)),
    **_each(Signature((_VECTOR, _STRING), optional=1, endless=True), "sort_by_label sort_by_label_desc"),
    "double_exponential_smoothing": Signature((_MATRIX, _SCALAR, _SCALAR)),
    "histogram_fraction": Signature((_SCALAR, _SCALAR, _VECTOR)),
    "histogram_quantile": Signature((_SCALAR, _VECTOR)),
    "histogram_quantiles": Signature((_VECTOR, _STRING, _SCALAR), endless=True),
    "info": Signature((_VECTOR, _VECTOR), optional=1),
    "label_join": Signature((_VECTOR, _STRING, _STRING, _STRING), optional=1, endless=True),
    "label_replace": Signature((_VECTOR, _STRING, _STRING, _STRING, _STRING)),
    "predict_linear": Signature((_MATRIX, _SCALAR)),
    "quantile_over_time": Signature((_SCALAR, _MATRIX)),
    "round": Signature((_VECTOR, _SCALAR), optional=1),
    "scalar": Signature((_VECTOR,), returns=_SCALAR),
    "vector": Signature((_SCALAR,)),
}

#: What of Prometheus 3 is left out, each with the reason that its error states.
UNSUPPORTED_FUNCTIONS = {
    **dict.fromkeys(
        "histogram_avg histogram_count histogram_stddev histogram_stdvar histogram_sum".split(),
        "needs native histograms, which are not supported",
    ),
    "holt_winters": "was renamed to double_exponential_smoothing in Prometheus 3",
}
#: Functions that take ranges with edges.
EDGE_FUNCTIONS = {
    RangeEdges.ANCHORED: ("changes", "delta", "increase", "rate", "resets"),
    RangeEdges.SMOOTHED: ("delta", "increase", "rate"),
}
#: Aggregations with a parameter, and its type.
AGGREGATION_PARAMETERS = {
    **dict.fromkeys("topk bottomk quantile limitk limit_ratio".split(), _SCALAR),
    "count_values": _STRING,
}
AGGREGATORS = frozenset(
    {"sum", "min", "max", "avg", "count", "group", "stddev", "stdvar", *AGGREGATION_PARAMETERS}
)

COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
SETS = frozenset({"and", "or", "unless"})
