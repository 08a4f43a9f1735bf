"""The time that a read may wait for a database that hangs."""

from __future__ import annotations

from controlplane.runtime import read_budget
from controlplane.runtime.read_budget import ReadBudget


def test_waits_add_up_and_an_answer_starts_the_count_anew() -> None:
    now = [100.0]
    budget = ReadBudget(4.0, lambda: now[0])
    now[0] += 3.0
    assert budget.left() == 1.0
    budget.answered()
    assert budget.left() == 4.0
    now[0] += 5.0
    assert budget.left() == 0.0


def test_a_read_inside_another_has_its_own_budget() -> None:
    assert read_budget.current() is None
    with read_budget.within(4.0):
        outer = read_budget.current()
        with read_budget.within(None):
            assert read_budget.current() is None
        assert read_budget.current() is outer is not None
    assert read_budget.current() is None
