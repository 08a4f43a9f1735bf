"""Our answers against those of a real Prometheus, over the same series: picked questions and chance ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from alerts.promql.errors import PromQLError
from alerts.promql.evaluator import evaluate, evaluate_range
from alerts.promql.series import SeriesInMemory
from alerts.promql.syntax.parser import parse
from tests.paths import DATA
from tests.unit.alerts.promql.agreement import Answer, differences, ours, theirs
from tests.unit.alerts.promql.peer import Peer, PeerError, peer_over
from tests.unit.alerts.promql.questions import Questions
from tests.unit.alerts.promql.specimens import BEGIN, specimens

PICKED = DATA / "promql" / "questions.txt"
#: No sample lies 7 s after a whole minute, so none is on the edge of a window.
AT, START, STEP = BEGIN + 2707.0, BEGIN + 607.0, 60.0
CHANCE = 400
SERIES = specimens()
SOURCE = SeriesInMemory(SERIES)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with peer_over(SERIES, tmp_path_factory.mktemp("prometheus")) as found:
        yield found


#: Words of the error where one side answers and the other does not: what Prometheus 3 changed since 2.42.
NEWER_FUNCTION = "unknown function"
ANY_NAME = ("invalid label name", "invalid destination label name")
BEFORE_THE_FILTER = ("many-to-one matching must be explicit", "grouping labels must ensure unique matches")


def or_refused(ask: Callable[[], Answer]) -> Answer | str:
    """The answer, or the words of the error."""
    try:
        return ask()
    except (PromQLError, PeerError) as error:
        return str(error)


def changed_since(mine: Answer | str, other: Answer | str) -> bool:
    """Whether 3.x differs from the peer here: new functions, UTF-8 names, and matches counted before a filter."""
    if isinstance(other, str):
        return NEWER_FUNCTION in other or any(text in other for text in ANY_NAME)
    return isinstance(mine, str) and any(text in mine for text in BEFORE_THE_FILTER)


def disagreement(peer: Peer, text: str) -> list[str]:
    """How the answers differ, at one moment and over a range; nothing where both refuse."""
    pairs = [
        (
            or_refused(lambda: ours(evaluate(parse(text), SOURCE, AT), AT)),
            or_refused(lambda: theirs(peer.query(text, AT))),
        ),
        (
            or_refused(lambda: ours(evaluate_range(parse(text), SOURCE, START, AT, STEP), AT)),
            or_refused(lambda: theirs(peer.query_range(text, START, AT, STEP))),
        ),
    ]
    found = []
    for mine, other in pairs:
        if changed_since(mine, other) or (isinstance(mine, str) and isinstance(other, str)):
            continue
        if isinstance(mine, str) or isinstance(other, str):
            found += [f"only {'theirs' if isinstance(mine, str) else 'ours'} answers: {mine} {other}"]
        else:
            found += differences(mine, other)
    return found


def picked() -> list[str]:
    lines = PICKED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_picked_questions_have_the_same_answers(peer: Peer) -> None:
    found = {text: disagreement(peer, text) for text in picked()}
    assert {text: lines[:3] for text, lines in found.items() if lines} == {}


def test_questions_by_chance_have_the_same_answers(peer: Peer) -> None:
    questions = [Questions(seed).vector(seed % 4) for seed in range(CHANCE)]
    found = {text: disagreement(peer, text) for text in questions}
    assert {text: lines[:3] for text, lines in found.items() if lines} == {}
