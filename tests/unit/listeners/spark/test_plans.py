"""Plans in the text form of Spark 3.5 and 4.3."""

import pytest

from listeners.spark import plans

JOINED = """\
~Project [k#0, v#4L]
+- ~Join Inner, ((k#0 = k#3) AND (ts#2-T600000ms >= ts#5-T300000ms))
   :- ~SubqueryAlias a
   :  +- ~EventTimeWatermark 87da6308-d850-451e-bd1b-128aea0beca7, ts#2: timestamp, 10 minutes
   :     +- StreamingRelation FileSource[/in/a], [k#0, v#1L, ts#2], name=<Unassigned>
   +- ~Filter (name#9 = two
lines of a literal)
      +- StreamingRelation FileSource[/in/b], [k#3, v#4L, ts#5]
"""


def test_nodes_are_in_preorder_without_continuation_lines() -> None:
    found = plans.nodes(JOINED)
    assert [(node.position, node.depth, node.name) for node in found] == [
        (0, 0, "Project"),
        (1, 1, "Join"),
        (2, 2, "SubqueryAlias"),
        (3, 3, "EventTimeWatermark"),
        (4, 4, "StreamingRelation"),
        (5, 2, "Filter"),
        (6, 3, "StreamingRelation"),
    ]
    assert found[1].text.startswith("Inner, ((k#0 = k#3)")


def test_ids_that_differ_between_runs_are_removed() -> None:
    assert plans.strip_ids("(sum(v#1L) / count(1)#22L) AS r#9-T600000ms") == "(sum(v) / count(1)) AS r"


def test_column_is_replaced_by_its_definition() -> None:
    tree = plans.nodes(
        "~Aggregate [kk#5], [kk#5, count(1) AS n#8L]\n"
        "+- ~Project [upper(b#4) AS kk#5, v#1L]\n"
        "   +- ~Project [concat(k#0, , k#0) AS b#4, v#1L]\n"
    )
    made = plans.column_definitions(tree)
    assert plans.expand_columns("kk#5", made) == "upper(concat(k, , k))"
    assert plans.expand_columns("v#1L", made) == "v"
    assert plans.expand_columns("substring(kk#5, 0, 2)", made) == "substring(upper(concat(k, , k)), 0, 2)"


def test_circular_definitions_end() -> None:
    assert plans.expand_columns("a#1", {"1": "f(b#2)", "2": "g(a#1)"}).count("f(") < 20


@pytest.mark.parametrize(
    ("condition", "pairs"),
    [
        ("(k#0 = k#3)", [("k#0", "k#3")]),
        ("(k#3 = k#0)", [("k#0", "k#3")]),
        (
            "(((k#0 = k#3) AND (upper(s#1) = t#4)) AND (v#2L > w#5L))",
            [("k#0", "k#3"), ("upper(s#1)", "t#4")],
        ),
        ("((k#0 = 5) AND (k#0 = s#1))", []),
        ("((k#0 = k#3) OR (s#1 = t#4))", []),
        ("", []),
    ],
)
def test_equality_keys_of_a_join_are_found_on_either_side(condition: str, pairs: list) -> None:
    assert plans.equal_keys(condition, {"0", "1", "2"}, {"3", "4", "5"}) == pairs


def test_types_are_named_without_field_names_and_nullability() -> None:
    inner = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": False, "metadata": {}}]}
    listed = {"type": "array", "elementType": inner, "containsNull": True}
    mapped = {"type": "map", "keyType": "string", "valueType": listed, "valueContainsNull": True}
    assert plans.type_name(mapped) == "map<string,array<struct<long>>>"
    assert plans.type_name("decimal(10,2)") == "decimal(10,2)"


def test_long_texts_that_differ_in_the_middle_stay_distinct() -> None:
    item, other = ("a" * 400 + middle + "b" * 400 for middle in "xy")
    assert plans.abbreviate(item) != plans.abbreviate(other)
    assert len(plans.abbreviate(item)) < 330
    assert plans.abbreviate("k") == "k"


@pytest.mark.parametrize("text", ["", "(", ")))", "a AS #", "[[[,", "= = AND"])
def test_text_that_is_not_a_plan_is_tolerated(text: str) -> None:
    tree = plans.nodes(f"~Project {text}\n+- ~Aggregate {text}")
    assert isinstance(plans.column_definitions(tree), dict)
    assert plans.equal_keys(text, {"0"}, {"1"}) == []
    assert isinstance(plans.expand_columns(text, {}), str)
