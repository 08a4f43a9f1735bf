"""Runs files in Prometheus' promqltest language against `alerts.promql`: `python -m tests.promqltest FILE…`.

Prints every failure with file and line, and last `N passed, N failed, N skipped`; a skip names an unsupported
construct. Exit code 1 when something failed, 2 when a file could not be opened. What the language has: `load`, `clear`,
`eval instant at`, `eval range from … to … step …`, their older forms `eval_fail` and `eval_ordered`, and `expect` lines.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from alerts.promql.annotations import Annotations
from alerts.promql.errors import PromQLError
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.series import (
    METRIC_NAME,
    STALE,
    Matrix,
    Scalar,
    Series,
    SeriesInMemory,
    String,
    Value,
    Vector,
)
from alerts.promql.syntax.literals import duration, string
from alerts.promql.syntax.nodes import Selector, selectors
from alerts.promql.syntax.parser import parse
from alerts.promql.syntax.tokens import tokenize

#: Relative, as in the original.
TOLERANCE = 1e-6
#: What is left out (docs/promql.md), by the words of an expression.
UNCLAIMED = {
    "functions of native histograms": r"\bhistogram_(count|sum|avg|stddev|stdvar)\s*\(",
    "trimming of native histograms": r"</|>/",
    "delayed removal of names": r"\blabel_(replace|join)\(\w+\(.*\"__name__\"",
}
_EVAL = re.compile(
    r"eval(?P<kind>_fail|_ordered|_warn|_info)?\s+"
    r"(?:instant\s+at\s+(?P<at>\S+)|range\s+from\s+(?P<start>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+))"
    r"\s+(?P<text>.+)"
)
_POINT = re.compile(r"(?P<first>[^\sx]+?)(?P<by>[+-][\d.eE]+)?x(?P<times>\d+)|(?P<one>\S+)")

_TYPE_LABELS = {"__type__", "__unit__"}
_SPAN = re.compile(r"expect range vector from (?P<start>\S+) to (?P<end>\S+) step (?P<step>\S+)(?P<at>)")

Points = list[float | None]


@dataclass
class Command:
    """A line at the margin with the lines under it. `line`: its number in the file."""

    line: int
    text: str
    below: list[str] = field(default_factory=list)


class Skipped(Exception):
    """The command needs what we do not claim."""


@dataclass
class Run:
    """One file: the series loaded so far, and the failures."""

    path: Path
    series: dict[frozenset[tuple[str, str]], dict[float, float]] = field(default_factory=dict)
    histograms: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def all(self) -> None:
        for command in commands(self.path.read_text(encoding="utf-8")):
            if command.text.startswith("eval"):
                self._judge(command)
            elif command.text.startswith("load"):
                with self._understood(command):
                    self._load(command)
            elif command.text == "clear":
                self.series.clear()
                self.histograms.clear()
            else:
                self._failed(command, "no command of the language")

    def _judge(self, command: Command) -> None:
        with self._understood(command):
            try:
                problem = self._evaluate(command)
            except Skipped as reason:
                self.skipped[str(reason)] += 1
                return
            if problem:
                self._failed(command, problem)
            else:
                self.counts["passed"] += 1

    @contextmanager
    def _understood(self, command: Command) -> Iterator[None]:
        """A line that cannot be read is a failure, so that no file passes because of it."""
        try:
            yield
        except (ValueError, IndexError, StopIteration, AssertionError, PromQLError) as error:
            self._failed(command, f"cannot be read: {error}")

    def _failed(self, command: Command, problem: str) -> None:
        self.counts["failed"] += 1
        print(f"{self.path}:{command.line}: {command.text}\n    {problem}")

    # -- load --------------------------------------------------------------------------------------

    def _load(self, command: Command) -> None:
        step = seconds(command.text.split()[1])
        for line in command.below:
            labels, rest = labelled(line)
            if "{{" in rest or command.text.startswith("load_with_nhcb"):
                name = labels.get(METRIC_NAME, "")
                self.histograms |= {name, re.sub(r"_(bucket|count|sum)$", "", name)}
            if "{{" in rest:
                continue
            samples = self.series.setdefault(frozenset(labels.items()), {})
            samples.update((i * step, v) for i, v in enumerate(points(rest)) if v is not None)

    def _source(self) -> SeriesInMemory:
        return SeriesInMemory(
            Series(dict(key), np.array(sorted(samples)), np.array([samples[t] for t in sorted(samples)]))
            for key, samples in self.series.items()
        )

    # -- eval --------------------------------------------------------------------------------------

    def _evaluate(self, command: Command) -> str:
        """What is wrong, or nothing."""
        asked = _EVAL.fullmatch(command.text)
        if asked is None:
            return "an eval that cannot be read"
        self._claimed(asked["text"], command.below)
        expected = [line for line in command.below if not line.startswith("expect")]
        must_fail = asked["kind"] == "_fail" or any(line.startswith("expect fail") for line in command.below)
        ordered = asked["kind"] == "_ordered" or "expect ordered" in command.below
        annotations = Annotations()
        try:
            found = self._ask(asked, annotations)
        except PromQLError as error:
            return "" if must_fail else f"error: {error}"
        if must_fail:
            return "should have failed"
        if problem := unannounced(asked["kind"] or "", command.below, annotations):
            return problem
        if texts := [line for line in command.below if line.startswith("expect string")]:
            wanted = texts[0].removeprefix("expect string").removeprefix(" ")
            if wanted[:1] in ('"', "'", "`"):
                wanted = string(next(tokenize(wanted)))
            return (
                "" if isinstance(found, String) and found.value == wanted else f"{found} and not {wanted!r}"
            )
        span = next(
            (_SPAN.fullmatch(line) for line in command.below if line.startswith("expect range")), None
        )
        return compared(found, expected, span or asked, ordered)

    def _claimed(self, text: str, below: list[str]) -> None:
        for construct, message in UNCLAIMED.items():
            if re.search(message, text):
                raise Skipped(construct)
        if any("{{" in line for line in below) or any(name and name in text for name in self.histograms):
            raise Skipped("native histograms")
        if any(not keys.isdisjoint(_TYPE_LABELS) for keys in (dict(key).keys() for key in self.series)):
            raise Skipped("labels of type and unit")

    def _ask(self, asked: re.Match[str], annotations: Annotations) -> Value:
        start, end, step = (seconds(asked[name] or "0s") for name in ("start", "end", "step"))
        node, source = parse(asked["text"], step, end - start), self._source()
        named = [
            any(m.name == METRIC_NAME and m.operator == "=" for m in s.matchers) for s in selectors(node)
        ]
        if self.histograms and not all(named):
            raise Skipped("native histograms")
        if asked["at"]:
            return evaluate(node, source, seconds(asked["at"]), annotations=annotations)
        return evaluate_range(node, source, start, end, step, annotations=annotations)


def unannounced(kind: str, below: list[str], annotations: Annotations) -> str:
    """What is wrong with the warnings and infos, or nothing."""
    given = {"warn": annotations.warnings, "info": annotations.infos}
    for name, notes in given.items():
        expected = [line for line in below if re.match(rf"expect {name}\b", line)]
        if (expected or kind == f"_{name}") and not notes:
            return f"no {name} annotation"
        if notes and f"expect no_{name}" in below:
            return f"{name} annotations: {notes}"
        for line in expected:
            how, _, wording = line.removeprefix(f"expect {name}").strip().partition(":")
            pattern = wording.strip() if how == "regex" else re.escape(wording.strip())
            if not any(re.search(pattern, note) for note in notes):
                return f"no {name} annotation is {wording.strip()!r}: {notes}"
    return ""


def commands(text: str) -> Iterator[Command]:
    """An indented line, and an `expect` line, belongs to the command above it; so does a series at the margin."""
    current: Command | None = None
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if re.match(r"(eval|load|clear)", line) or current is None:
            if current:
                yield current
            current = Command(number, bare)
        else:
            current.below.append(line.lstrip() if "expect string" in line else bare)
    if current:
        yield current


def seconds(text: str) -> float:
    sign, bare = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * duration(next(tokenize(bare)))


def labelled(line: str) -> tuple[Mapping[str, str], str]:
    """The label set at the head of a line, and the rest of it."""
    head = re.match(
        r"""(?:[a-zA-Z_:][\w:]*)?(?:\{(?:[^"'}]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*\})?""", line
    )
    text = head[0] if head else ""
    if not text.strip("{} "):
        return {}, line[len(text) :]
    node = parse(text)
    assert isinstance(node, Selector)
    return {m.name: m.value for m in node.matchers if m.value}, line[len(text) :]


def points(text: str) -> Points:
    return [value for found in _POINT.finditer(text) for value in _point(found)]


def _point(found: re.Match[str]) -> Points:
    if found["one"]:
        return [_value(found["one"])]
    first, times = _value(found["first"]), int(found["times"])
    if first is None:
        return [None] * times
    return [first + float(found["by"] or 0) * i for i in range(times + 1)]


def _value(word: str) -> float | None:
    if word == "_":
        return None
    return float(STALE) if word == "stale" else float(word.replace("Inf", "inf"))


# -- comparing -------------------------------------------------------------------------------------

Line = tuple[dict[str, str], Points]


def compared(found: Value, expected: list[str], asked: re.Match[str], ordered: bool) -> str:
    if isinstance(found, Scalar):
        wanted = points(expected[0])[0] if expected else None
        return "" if wanted is not None and alike(found.value, wanted) else f"{found.value} and not {wanted}"
    if isinstance(found, String):
        return f"a string: {found.value!r}"
    got, want = lines(found, asked), [wanted_line(line) for line in expected]
    if isinstance(found, Matrix):
        width = max((len(values) for _, values in got + want), default=0)
        got, want = ([(labels, _filled(values, width)) for labels, values in side] for side in (got, want))
    if not ordered:
        got, want = (sorted(side, key=lambda line: sorted(line[0].items())) for side in (got, want))
    if len(got) == len(want) and all(map(equal, got, want)):
        return ""
    return f"got {got}\n    not {want}"


def _filled(values: Points, width: int) -> Points:
    return values + [None] * (width - len(values))


def wanted_line(line: str) -> Line:
    labels, rest = labelled(line)
    return dict(labels), points(rest)


def lines(found: Value, asked: re.Match[str]) -> list[Line]:
    if not isinstance(found, Matrix):
        assert isinstance(found, Vector)
        return [(dict(sample.labels), [sample.value]) for sample in found]
    if asked["at"]:
        return [(dict(item.labels), item.values.tolist()) for item in found]
    start, step = seconds(asked["start"]), seconds(asked["step"])
    count = int((seconds(asked["end"]) - start) / step + 1e-9) + 1
    result: list[Line] = []
    for item in found:
        at = {
            round((t - start) / step): v
            for t, v in zip(item.times.tolist(), item.values.tolist(), strict=True)
        }
        result.append((dict(item.labels), [at.get(i) for i in range(count)]))
    return result


def equal(line: Line, other: Line) -> bool:
    return line[0] == other[0] and len(line[1]) == len(other[1]) and all(map(_same, line[1], other[1]))


def _same(item: float | None, other: float | None) -> bool:
    return item is other if item is None or other is None else alike(item, other)


def alike(item: float, other: float) -> bool:
    if math.isnan(item) or math.isnan(other):
        return math.isnan(item) and math.isnan(other)
    return math.isclose(item, other, rel_tol=TOLERANCE)


def main(paths: list[str]) -> int:
    if not paths:
        print("usage: python -m tests.promqltest FILES…", file=sys.stderr)
        return 2
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for path in paths:
        run = Run(Path(path))
        try:
            run.all()
        except (OSError, UnicodeDecodeError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
        counts += run.counts
        skipped += run.skipped
    for construct, number in skipped.most_common():
        print(f"skipped {number}: {construct}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {skipped.total()} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
