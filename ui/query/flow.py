"""The way of the rows in the last batch: sources, state operators in the order of the plan, sink, with their figures.

Part of the Query page. Spark reports neither operators without state nor the inputs of an operator, so those of several
branches follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui.kit import units
from ui.kit.frames import Json
from ui.kit.markup import one_line, plain

MAX_NAME = 80
NOTE = (
    "Rows of the last batch and the state after it. Spark reports no operators without state; those of several "
    "branches follow each other."
)


@dataclass(frozen=True)
class FlowNode:
    """A source, a state operator or the sink. `figures`: one short text each."""

    kind: str
    name: str
    figures: tuple[str, ...]


def stages(query: Json) -> list[list[FlowNode]]:
    """The nodes from the sources to the sink, those side by side in one list; empty without a progress report."""
    sources = [_source(item) for item in query.get("sources") or []]
    # Spark collects the operators from the sink's end of the plan.
    operators = [[_operator(item)] for item in reversed(query.get("operators") or [])]
    sink = query.get("sink") or {}
    return [sources, *operators, [_sink(sink)]] if sources else []


def _source(item: Json) -> FlowNode:
    rows, offsets = units.number(item.get("lag_rows")), units.number(item.get("lag_offsets"))
    waiting = (rows, "rows") if rows is not None else (offsets, "offsets")
    return FlowNode(
        "Source",
        _name(item.get("description") or "unknown source"),
        _texts(
            (item.get("input_rows"), "rows read"),
            (waiting[0], f"{waiting[1]} behind"),
        ),
    )


def _operator(item: Json) -> FlowNode:
    memory = units.number(item.get("memoryUsedBytes"))
    commit = units.number(item.get("commitTimeMs"))
    figures = _texts(
        (item.get("numRowsTotal"), "rows of state"),
        (item.get("numRowsUpdated"), "updated"),
        (item.get("numRowsRemoved"), "removed"),
        (item.get("numRowsDroppedByWatermark") or None, "dropped as too late"),
    )
    figures += () if memory is None else (f"{units.size(memory)} of memory",)
    figures += () if commit is None else (f"commits of all tasks {units.span(commit / 1000)}",)
    return FlowNode("State", _name(item.get("operatorName") or "unknown operator"), figures)


def _sink(sink: Json) -> FlowNode:
    rows = units.number(sink.get("numOutputRows"))
    written = rows if rows is not None and rows >= 0 else None  # -1: the sink does not count
    return FlowNode(
        "Sink",
        _name(sink.get("description") or "unknown sink"),
        _texts((written, "rows written")),
    )


def _name(text: Any) -> str:
    name = one_line(text)
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def _texts(*figures: tuple[Any, str]) -> tuple[str, ...]:
    found = ((units.number(value), unit) for value, unit in figures)
    return tuple(
        units.count(value, unit.replace("rows", "row") if value == 1 else unit)
        for value, unit in found
        if value is not None
    )


def draw(query: Json) -> None:
    """Draw the nodes from left to right, with arrows between them."""
    found = stages(query)
    if not found:
        st.caption("No progress yet.")
        return
    st.caption(NOTE)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="flow"):
        for place, nodes in enumerate(found):
            if place:
                st.markdown(":material/arrow_forward:", width="content")
            _stage(nodes)


def _stage(nodes: Sequence[FlowNode]) -> None:
    with st.container(width=230, gap="xsmall"):
        for node in nodes:
            with st.container(border=True, gap="xsmall"):
                st.caption(node.kind)
                st.markdown(f"**{plain(node.name)}**")
                for figure in node.figures:
                    st.markdown(plain(figure))
