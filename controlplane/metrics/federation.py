"""The current samples of chosen series in Prometheus' text format, for `/federate`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.series import METRIC_NAME
from alerts.promql.syntax.printing import number
from listeners.protocol.catalogue import BY_NAME

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(
    samples: Iterable[tuple[str, Mapping[str, str], float]],
    selectors: Sequence[Sequence[Matcher]],
    external: Labels,
    at: float,
) -> bytes:
    """The samples that match any selector, with `external` labels where a series has no such label.

    `at`: the time of the samples, Unix seconds. Names that are no identifiers are written in quotes.
    """
    found: dict[str, list[str]] = {}
    for name, labels, value in samples:
        named = {METRIC_NAME: name, **labels}
        if any(matches(matchers, named) for matchers in selectors):
            found.setdefault(name, []).append(_line(name, {**external, **labels}, value, at))
    return "".join(_family(name, lines) for name, lines in sorted(found.items())).encode()


def _family(name: str, lines: Sequence[str]) -> str:
    metric = BY_NAME.get(name)
    kind = metric.type if metric is not None and metric.type in ("counter", "gauge") else "untyped"
    shown = name if _METRIC.fullmatch(name) else f'"{name.translate(_ESCAPES)}"'
    return f"# TYPE {shown} {kind}\n{''.join(sorted(lines))}"


def _line(name: str, labels: Mapping[str, str], value: float, at: float) -> str:
    plain = bool(_METRIC.fullmatch(name))
    inside = [] if plain else [f'"{name.translate(_ESCAPES)}"']
    inside += [f'{_label(key)}="{text.translate(_ESCAPES)}"' for key, text in sorted(labels.items()) if text]
    shown = (name if plain else "") + (f"{{{','.join(inside)}}}" if inside else "")
    return f"{shown} {number(value)} {round(at * 1000)}\n"


def _label(name: str) -> str:
    return name if _LABEL.fullmatch(name) else f'"{name.translate(_ESCAPES)}"'
