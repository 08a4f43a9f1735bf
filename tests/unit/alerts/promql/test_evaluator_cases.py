"""What expressions evaluate to: the cases of `tests/data/promql`, whose format `cases` reports."""

from __future__ import annotations

import pytest

from alerts.promql.errors import PromQLError
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.series import Matrix, Sample, Scalar, SeriesInMemory, String, Value
from alerts.promql.syntax.parser import parse
from tests.paths import DATA
from tests.unit.alerts.promql.agreement import same
from tests.unit.alerts.promql.cases import Case, labelled, read

FOLDER = DATA / "promql"
CASES = [case for path in sorted(FOLDER.glob("*.cases")) for case in read(path)]

Line = tuple[dict[str, str], list[float | None]]


def answer(case: Case) -> Value:
    source = SeriesInMemory(case.series)
    if case.end is None:
        return evaluate(parse(case.text), source, case.start)
    node = parse(case.text, case.step, case.end - case.start)
    return evaluate_range(node, source, case.start, case.end, case.step)


def lines(value: Value, case: Case) -> list[Line]:
    """The answer as label sets, each with a value for every step of the case."""
    if isinstance(value, Matrix) and case.end is not None:
        steps = [case.start + i * case.step for i in range(int((case.end - case.start) / case.step) + 1)]
        points = [
            (item.labels, dict(zip(item.times.tolist(), item.values.tolist(), strict=True))) for item in value
        ]
        return [(dict(labels), [at.get(step) for step in steps]) for labels, at in points]
    if isinstance(value, Matrix):
        return [(dict(item.labels), item.values.tolist()) for item in value]
    assert isinstance(value, list)
    return [(dict(item.labels), [item.value]) for item in value if isinstance(item, Sample)]


def equal(line: Line, other: Line) -> bool:
    def alike(a: float | None, b: float | None) -> bool:
        return a is b if a is None or b is None else same(a, b)

    return line[0] == other[0] and len(line[1]) == len(other[1]) and all(map(alike, line[1], other[1]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.where} {case.text[:50]}")
def test_the_answer_is_the_one_that_the_case_gives(case: Case) -> None:
    if case.expected and case.expected[0].startswith("fails: "):
        message = case.expected[0].removeprefix("fails: ")
        with pytest.raises(PromQLError, match=message):
            answer(case)
        return
    found = answer(case)
    if isinstance(found, Scalar | String):
        kind, _, text = case.expected[0].partition(" ")
        assert kind == ("scalar" if isinstance(found, Scalar) else "string")
        assert found.value == text if isinstance(found, String) else same(found.value, float(text))
        return
    ordered = "in order" in case.expected
    expected = [(dict(labels), values) for labels, values in map(labelled, set_out(case))]
    given = lines(found, case)
    if not ordered:
        expected, given = (
            sorted(side, key=lambda line: sorted(line[0].items())) for side in (expected, given)
        )
    assert len(given) == len(expected), given
    assert all(map(equal, given, expected)), given


def set_out(case: Case) -> list[str]:
    return [line for line in case.expected if line != "in order"]


def test_there_are_cases() -> None:
    assert len(CASES) > 100
