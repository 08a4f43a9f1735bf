"""Generated expressions and damaged files: an answer or an error with its position, within limits, never a crash."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable, Iterable

import pytest

from alerts import unit_tests
from alerts.errors import AlertsError
from alerts.notify import config
from alerts.promql.errors import ParseError
from alerts.promql.evaluator import evaluate
from alerts.promql.limits import Limits
from alerts.promql.series import SeriesInMemory
from alerts.promql.syntax.parser import parse
from alerts.rules import loader
from alerts.rules.pack import render_routing, render_server_rules
from alerts.yaml.tree import DocumentError
from tests.paths import ROOT
from tests.unit.alerts.promql.questions import Questions
from tests.unit.alerts.promql.specimens import BEGIN, specimens

EXPRESSIONS, FILES = 100_000, 10_000
MAX_GROWTH_MB = 300
PIECES = (
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    '"',
    "'",
    "\\",
    ":",
    "-",
    "|",
    ">",
    "&a",
    "*a",
    "<<:",
    "\t",
    "\n",
    "é",
    "\0",
    "5m",
    "1e999",
)


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterable[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MAX_GROWTH_MB


def damaged(text: str, dice: random.Random) -> str:
    """The text with one to four cuts, repeated parts and inserted pieces."""
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(text) + 1)
        until = min(len(text), at + dice.randint(1, 20))
        insertion = dice.choice(("", text[at:until] * 2, dice.choice(PIECES)))
        text = text[:at] + insertion + text[until if dice.random() < 0.5 else at :]
    return text


def has_position(text: str, line: int, column: int) -> bool:
    lines = text.split("\n")
    return 1 <= line <= len(lines) + 1 and column >= 1


def refusal(text: str, source: SeriesInMemory) -> AlertsError | None:
    try:
        evaluate(parse(text), source, BEGIN + 1807.0, limits=Limits(seconds=20))
    except AlertsError as error:
        return error
    return None


@pytest.mark.soak
def test_a_generated_expression_is_answered_or_refused_with_its_position() -> None:
    dice, source, answered = random.Random(20261122), SeriesInMemory(specimens()), 0
    for seed in range(EXPRESSIONS):
        text = Questions(seed).vector(dice.randint(0, 3))
        text = damaged(text, dice) if seed % 2 else text
        problem = refusal(text, source)
        answered += problem is None
        if isinstance(problem, ParseError):
            assert seed % 2, text
            assert has_position(text, problem.line, problem.column), text
    assert answered > EXPRESSIONS / 3


LOADERS: dict[str, tuple[str, Callable[[str], tuple[object, tuple[DocumentError, ...]]]]] = {
    "rules": (render_server_rules(), loader.load),
    "routing": (render_routing(webhook="http://127.0.0.1:9/"), config.load),
    "unit tests": ((ROOT / "tests/data/rules/server.test.yaml").read_text(encoding="utf-8"), unit_tests.load),
}


@pytest.mark.soak
@pytest.mark.parametrize("kind", LOADERS)
def test_a_damaged_file_loads_or_each_of_its_errors_has_a_position(kind: str) -> None:
    (text, load), dice, refused = LOADERS[kind], random.Random(7), 0
    for _ in range(FILES // len(LOADERS) + 1):
        broken = damaged(text, dice)
        _, mistakes = load(broken)
        refused += bool(mistakes)
        assert all(has_position(broken, error.line, error.column) for error in mistakes), broken
    assert refused > FILES / 10
