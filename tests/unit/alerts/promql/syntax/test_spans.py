"""Durations that are computed: precedence, functions of the query, and the bound on nesting."""

from __future__ import annotations

import pytest

from alerts.promql.errors import ParseError
from alerts.promql.syntax.nodes import Selector, Subquery
from alerts.promql.syntax.parser import parse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m30s", 90.0),
        ("90", 90.0),
        ("1m+30", 90.0),
        ("2m-30s", 90.0),
        ("3*30s", 90.0),
        ("1h/40", 90.0),
        ("1h30m%1h30m-1m+150s", 90.0),
        ("10+2^3*10", 90.0),
        ("-30s+2m", 90.0),
        ("-2^2+94", 90.0),
        ("(1m+30s)*(2-1)", 90.0),
        ("step()*6", 90.0),
        ("STEP() + range()/8", 90.0),
        ("min(90s, 2m)", 90.0),
        ("max_of(90s, 1m)", 90.0),
        ("0.0904*1000-0.4", 90.0),
    ],
)
def test_a_range_is_computed(text: str, seconds: float) -> None:
    selector = parse(f"a[{text}]", step=15.0, length=600.0)
    assert isinstance(selector, Selector)
    assert selector.range == seconds
    subquery = parse(f"a[1h:{text}]", step=15.0, length=600.0)
    assert isinstance(subquery, Subquery)
    assert subquery.step == seconds


@pytest.mark.parametrize(
    ("text", "offset"),
    [("step()", 15.0), ("-step()", -15.0), ("(2*step())", 30.0), ("-(1m/2)", -30.0), ("0", 0.0)],
)
def test_an_offset_is_one_operand_or_in_parentheses(text: str, offset: float) -> None:
    node = parse(f"a offset {text}", step=15.0)
    assert isinstance(node, Selector)
    assert node.shift.offset == offset


def test_computed_durations_nest_no_deeper_than_expressions() -> None:
    with pytest.raises(ParseError, match="deeper than"):
        parse(f"a[{'(' * 200}1m{')' * 200}]")
