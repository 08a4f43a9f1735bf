"""The nodes of a query's flow: their order and the figures of each."""

from __future__ import annotations

from typing import Any

import pytest

from ui.query.flow import FlowNode, stages

SOURCE = {"description": "KafkaV2[Subscribe[orders]]", "input_rows": 6200, "lag_rows": 40, "lag_offsets": 40}
DEDUPLICATION = {"operatorName": "dedupe", "numRowsTotal": 10, "numRowsUpdated": 3, "numRowsRemoved": 0}
SUM = {
    "operatorName": "stateStoreSave",
    "numRowsTotal": 184_000,
    "numRowsUpdated": 6200,
    "numRowsRemoved": 12,
    "numRowsDroppedByWatermark": 7,
    "memoryUsedBytes": 96_000_000,
    "commitTimeMs": 1500,
}


def test_the_rows_go_from_the_sources_through_the_operators_to_the_sink() -> None:
    # Spark 4.3 reports the operator next to the sink first.
    query = {"sources": [SOURCE, SOURCE], "operators": [SUM, DEDUPLICATION], "sink": {"description": "Noop"}}
    kinds = [[(node.kind, node.name) for node in nodes] for nodes in stages(query)]
    source = ("Source", "KafkaV2[Subscribe[orders]]")
    assert kinds == [
        [source, source],
        [("State", "dedupe")],
        [("State", "stateStoreSave")],
        [("Sink", "Noop")],
    ]


def test_each_node_has_its_figures() -> None:
    query = {"sources": [SOURCE], "operators": [SUM], "sink": {"description": "Delta", "numOutputRows": 6200}}
    assert [node.figures for nodes in stages(query) for node in nodes] == [
        ("6.2k rows read", "40 rows behind"),
        (
            "184k rows of state",
            "6.2k updated",
            "12 removed",
            "7 dropped as too late",
            "96 MB of memory",
            "commits of all tasks 1.5 s",
        ),
        ("6.2k rows written",),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, []),
        ({"sources": [], "sink": None}, []),
        (
            {
                "sources": [{"lag_rows": None, "lag_offsets": 9}],
                "sink": {"description": None, "numOutputRows": -1},
            },
            [
                [FlowNode("Source", "unknown source", ("9 offsets behind",))],
                [FlowNode("Sink", "unknown sink", ())],
            ],
        ),
        (
            {"sources": [{"description": "x" * 200, "input_rows": 1}], "sink": {"description": "Noop"}},
            [[FlowNode("Source", "x" * 79 + "…", ("1 row read",))], [FlowNode("Sink", "Noop", ())]],
        ),
        (
            {"sources": [{"description": "rate", "input_rows": "many"}], "operators": [{}], "sink": {}},
            [
                [FlowNode("Source", "rate", ())],
                [FlowNode("State", "unknown operator", ())],
                [FlowNode("Sink", "unknown sink", ())],
            ],
        ),
    ],
)
def test_what_is_not_known_is_left_out(query: dict[str, Any], expected: list[list[FlowNode]]) -> None:
    assert stages(query) == expected
