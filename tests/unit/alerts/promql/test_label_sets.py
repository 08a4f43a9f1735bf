"""Label sets as numbers: every operation on numbers against the same one on dicts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.matching.labels import Labels
from alerts.promql import label_sets as module
from alerts.promql.label_sets import Groups, LabelColumn, LabelSets

NAMES = ("__name__", "a", "b", "c")
LABELS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["", "x", "y"]), max_size=4)
COLUMNS = st.lists(LABELS, max_size=8)
CHOSEN = st.sets(st.sampled_from(NAMES), max_size=3)


def held(labels: Labels) -> Labels:
    """The labels without empty values."""
    return {name: value for name, value in labels.items() if value}


@settings(max_examples=100, deadline=None)
@given(COLUMNS, CHOSEN)
def test_numbers_stand_for_label_sets_and_their_changes(all_labels: list[Labels], chosen: set[str]) -> None:
    column, names = LabelColumn.of(all_labels), tuple(sorted(chosen))
    expected = [held(labels) for labels in all_labels]
    for _ in range(2):  # the second time from memory
        assert list(column) == expected
        by = [{k: v for k, v in labels.items() if k in chosen} for labels in expected]
        assert list(column.by(names)) == by
        rest = [{k: v for k, v in labels.items() if k not in chosen} for labels in expected]
        assert list(column.dropping(names)) == rest
        bare = [{k: v for k, v in labels.items() if k != "__name__"} for labels in rest]
        assert list(column.without(names)) == bare
        assert list(column.relabeled(lambda own: {**own, "a": "", "d": "new"})) == [
            {**{k: v for k, v in labels.items() if k != "a"}, "d": "new"} for labels in expected
        ]


@settings(max_examples=100, deadline=None)
@given(COLUMNS, COLUMNS)
def test_groups_are_numbered_as_they_come_and_found_again(first: list[Labels], second: list[Labels]) -> None:
    column, numbers = LabelColumn.of(first), dict[frozenset[tuple[str, str]], int]()
    expected = [numbers.setdefault(frozenset(held(own).items()), len(numbers)) for own in first]
    groups = Groups(column)
    assert (groups.of.tolist(), len(groups)) == (expected, len(numbers))
    assert [expected.index(group) for group in range(len(numbers))] == groups.first.tolist()
    assert column.distinct() == (len(numbers) == len(first))
    for other in (LabelColumn.of(second), LabelColumn.of(second, column.sets)):
        assert groups.find(other).tolist() == [
            numbers.get(frozenset(held(own).items()), -1) for own in second
        ]


@settings(max_examples=50, deadline=None)
@given(COLUMNS, COLUMNS)
def test_columns_of_different_sets_are_joined(first: list[Labels], second: list[Labels]) -> None:
    joined = LabelColumn.of(first).joined(LabelColumn.of(second))
    assert list(joined) == [held(labels) for labels in [*first, *second]]


def test_label_sets_with_the_same_hash_stay_distinct(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "hash", lambda _: 7, raising=False)
    sets = LabelSets()
    column = LabelColumn.of([{"a": "x"}, {"a": "y"}, {"a": "x"}], sets)
    assert list(column) == [{"a": "x"}, {"a": "y"}, {"a": "x"}]
    assert Groups(column).of.tolist() == [0, 1, 0]


def test_a_change_is_made_once_for_each_label_set() -> None:
    made: list[Labels] = []

    def change(labels: Labels) -> Labels:
        made.append(labels)
        return {}

    column = LabelColumn.of([{"a": str(number % 50)} for number in range(200)])
    for _ in range(3):
        assert not np.any(column.changed("key", change).numbers)
    assert len(made) == 50
