"""Cases as text, in `tests/data/promql/*.cases`: series, questions, and the answers.

    every 1m                        the time between the samples of the series that follow
      up{job="a"} 0 1 _ NaN +Inf    samples at 0, 1m, 2m …; `_` is none, `stale` the mark of an
                                    end, 0+2x5 is 0 2 4 6 8 10
    at 5m: sum(up)                  a question, and below it all that must come out
      {} 3
    at 0..5m/1m: up                 a range query; one value a step
      up{job="a"} 0 1 _ 3 4 5
    at 5m: 5                        where the answer is no vector: `scalar 5`, `string x`
      scalar 5
    at 5m: up / on () up
      fails: many-to-many           words of the error
    at 5m: sort(up)
      in order                      and so are the lines below

Each `every` begins a new set of series. Values are compared to a relative 1e-9; `#` begins a comment line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alerts.matching.labels import parse_matchers
from alerts.promql.series import STALE, Series

_ASK = re.compile(r"at (?P<start>\S+?)(?:\.\.(?P<end>[^/:]+)/(?P<step>[^:]+))?: (?P<text>.+)")
_SERIES = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)?(?P<labels>\{.*\})? +(?P<values>[^}]+)")
_RUN = re.compile(r"(-?[\d.]+)([+-][\d.]+)x(\d+)")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}


@dataclass(frozen=True)
class Case:
    """A question, the series it is asked over, and the lines that are expected. `end` None: at one moment."""

    where: str
    series: tuple[Series, ...]
    text: str
    start: float
    end: float | None
    step: float
    expected: tuple[str, ...]


def read(path: Path) -> Iterator[Case]:
    every, series = 60.0, tuple[Series, ...]()
    for head, where, below in _blocks(path):
        if head.startswith("every "):
            every = seconds(head.removeprefix("every "))
            series = tuple(_series(line, every) for line in below)
        elif found := _ASK.fullmatch(head):
            end, step = (seconds(found[name]) if found[name] else None for name in ("end", "step"))
            yield Case(where, series, found["text"], seconds(found["start"]), end, step or 0.0, below)
        else:
            raise ValueError(f"{where}: neither `every` nor `at`: {head}")


def _blocks(path: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Every line at the margin, where it is, and the indented lines below it."""
    head, where, below = "", "", list[str]()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(" "):
            below.append(line.strip())
            continue
        if head:
            yield head, where, tuple(below)
        head, where, below = line, f"{path.name}:{number}", []
    if head:
        yield head, where, tuple(below)


def _series(line: str, every: float) -> Series:
    labels, values = labelled(line)
    times = every * np.arange(len(values))
    there = np.array([value is not None for value in values], bool)
    return Series(labels, times[there], np.array([value for value in values if value is not None], float))


def labelled(line: str) -> tuple[Mapping[str, str], list[float | None]]:
    """`name{labels} values` as label set and values."""
    found = _SERIES.fullmatch(line)
    if found is None:
        raise ValueError(f"not a label set with values: {line}")
    labels = {matcher.name: matcher.value for matcher in parse_matchers(found["labels"] or "")}
    if found["name"]:
        labels["__name__"] = found["name"]
    return labels, [value for word in found["values"].split() for value in _values(word)]


def _values(word: str) -> list[float | None]:
    if run := _RUN.fullmatch(word):
        return [float(run[1]) + float(run[2]) * i for i in range(int(run[3]) + 1)]
    return [None if word == "_" else float(STALE) if word == "stale" else float(word)]


def seconds(text: str) -> float:
    """`90`, `1m30s`, `250ms`."""
    if not re.fullmatch(r"([\d.]+(ms|[smhd]|$))+", text.strip()):
        raise ValueError(f"not a time: {text}")
    return sum(
        float(count) * _UNITS[unit] for count, unit in re.findall(r"([\d.]+)(ms|[smhd]|$)", text.strip())
    )
