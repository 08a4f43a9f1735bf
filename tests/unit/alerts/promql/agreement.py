"""Whether two answers to one question are the same: what our evaluator states, what the JSON of Prometheus states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from alerts.promql.series import Matrix, Scalar, String, Value

#: Relative; sums taken in another order differ in the last digits, variances in a few more.
TOLERANCE = 1e-9

Key = frozenset[tuple[str, str]]
Answer = dict[Key, dict[float, float]]


def ours(value: Value, at: float) -> Answer:
    match value:
        case Scalar():
            return {frozenset(): {at: value.value}}
        case String():
            raise TypeError("a string has no number to compare")
        case Matrix():
            return {
                _key(s.labels): {
                    round(t, 3): v for t, v in zip(s.times.tolist(), s.values.tolist(), strict=True)
                }
                for s in value
            }
    return {_key(sample.labels): {at: sample.value} for sample in value}


def theirs(data: Any) -> Answer:
    match data["resultType"]:
        case "scalar":
            return {frozenset(): dict([_point(data["result"])])}
        case "vector":
            return {_key(item["metric"]): dict([_point(item["value"])]) for item in data["result"]}
    return {_key(item["metric"]): dict(map(_point, item["values"])) for item in data["result"]}


def _point(pair: Any) -> tuple[float, float]:
    return round(float(pair[0]), 3), float(pair[1])


def _key(labels: Mapping[str, str]) -> Key:
    return frozenset(labels.items())


def differences(left: Answer, right: Answer) -> list[str]:
    """What differs, in a few words each."""
    found = [f"only ours: {sorted(key)}" for key in left.keys() - right.keys()]
    found += [f"only theirs: {sorted(key)}" for key in right.keys() - left.keys()]
    for key in left.keys() & right.keys():
        item, other = left[key], right[key]
        found += [f"{sorted(key)} has a sample at {t} on one side" for t in item.keys() ^ other.keys()]
        found += [
            f"{sorted(key)} at {t}: ours {item[t]!r}, theirs {other[t]!r}"
            for t in item.keys() & other.keys()
            if not same(item[t], other[t])
        ]
    return found


def same(item: float, other: float) -> bool:
    if math.isnan(item) or math.isnan(other):
        return math.isnan(item) and math.isnan(other)
    return math.isclose(item, other, rel_tol=TOLERANCE, abs_tol=1e-12)
