"""Batches of the Query page's range: the slowest, why each was slow, and one of them in full.

A batch is compared with the median of the range. The page calls `draw` with the reports that its charts show, and
with the moment that was clicked on one of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from ui.kit import cached_reads, units, widgets
from ui.kit.markup import one_line, plain

Json = Mapping[str, Any]

SLOWEST = 20
#: Below this factor a batch is as long as the others.
NOTABLE = 1.5
#: Not a phase: the whole of the others.
TOTAL = "triggerExecution"
MAX_PARTITIONS = 200


def draw(query: Json, points: Sequence[Json], clicked: float | None = None) -> None:
    """The slowest batches of the range and, of a chosen one, phases, partitions and state operators.

    `clicked`, in Unix seconds, chooses the batch that was reported nearest to it.
    """
    batches = [point for point in points if int(point.get("batch_id", -1)) >= 0]
    if batches and clicked is not None:
        st.session_state.update(show_batches=True, batch=_key(nearest(batches, clicked)))
    if not batches or not st.toggle("Slowest batches", key="show_batches"):
        return
    normal = medians(batches)
    slow = slowest(batches)
    with st.container(border=True, key="batch_explorer"):
        st.caption(
            f"The slowest of {len(batches)} reports of this range. Median: {units.span(normal.duration)}."
        )
        st.dataframe(
            rows(slow, normal),
            key="batches",
            hide_index=True,
            height=widgets.table_height(min(8, len(slow))),
            placeholder="–",
            alt="The slowest batches of this range",
        )
        options = {_key(point): point for point in slow}
        chosen_before = st.session_state.get("batch")
        if chosen_before not in options:
            options |= {_key(point): point for point in batches if _key(point) == chosen_before}
        chosen = st.selectbox(
            "Batch",
            list(options),
            format_func=lambda key: f"Batch {options[key]['batch_id']}, {_duration(options[key])}",
            index=None,
            key="batch",
        )
        if chosen in options:
            point = options[chosen]
            st.caption(why(point, normal))
            _one(query, point, normal)


def nearest(points: Sequence[Json], moment: float) -> Json:
    """The report nearest to the moment in Unix seconds; the slower of two of one time."""
    return min(
        points,
        key=lambda point: (
            abs((units.moment(point.get("at")) or 0.0) - moment),
            -float(point["batch_duration_seconds"]),
        ),
    )


def _key(point: Json) -> str:
    return f"{point['run_id']} {point['batch_id']}"


@dataclass(frozen=True)
class Medians:
    """The median batch of a range: seconds, rows, and milliseconds by phase."""

    duration: float
    rows: float
    phases: Mapping[str, float]


def medians(points: Sequence[Json]) -> Medians:
    """The median of these reports. A phase that a report lacks took no time."""
    names = {name for point in points for name in point.get("phases_ms") or {} if name != TOTAL}
    phases = {n: statistics.median((p.get("phases_ms") or {}).get(n, 0.0) for p in points) for n in names}
    duration = statistics.median(float(point["batch_duration_seconds"]) for point in points)
    return Medians(duration, statistics.median(float(point["input_rows"]) for point in points), phases)


def slowest(points: Sequence[Json]) -> list[Json]:
    """The slowest batches, slowest first; of a batch with several reports the slowest."""
    found: dict[tuple[Any, Any], Json] = {}
    for point in sorted(points, key=lambda point: -float(point["batch_duration_seconds"])):
        found.setdefault((point["run_id"], point["batch_id"]), point)
    return list(found.values())[:SLOWEST]


def why(point: Json, normal: Medians) -> str:
    """What made the batch longer than the median: the phase that grew most, and whether it had more rows."""
    duration, rows = float(point["batch_duration_seconds"]), float(point["input_rows"])
    if duration < NOTABLE * normal.duration:
        return "As long as the others."
    phases = {n: ms for n, ms in (point.get("phases_ms") or {}).items() if n != TOTAL}
    grown = {name: ms - normal.phases.get(name, 0.0) for name, ms in phases.items()}
    name = max(grown, key=grown.__getitem__, default=None)
    longest = ""
    if name is not None and grown[name] > 0:
        median = units.span(normal.phases.get(name, 0.0) / 1000)
        longest = f"{name} took {units.span(phases[name] / 1000)} (median {median})"
    if normal.rows and rows >= NOTABLE * normal.rows:
        more = f"{rows / normal.rows:.1f} times as many rows as the median"
    else:
        more = "with no more rows than usual"
    return f"{longest}, {more}." if longest else f"{more[:1].upper()}{more[1:]}."


def rows(points: Sequence[Json], normal: Medians) -> pd.DataFrame:
    """The batches as a table."""
    now, zone = time.time(), widgets.zone()
    return pd.DataFrame(
        [
            {
                "Batch": str(point["batch_id"]),
                "Ended": units.clock(point.get("at"), zone, now),
                "Duration": _duration(point),
                "Rows": units.count(float(point["input_rows"]), "rows"),
                "Why": why(point, normal),
            }
            for point in points
        ]
    )


def _duration(point: Json) -> str:
    return units.span(float(point["batch_duration_seconds"]))


def _one(query: Json, point: Json, normal: Medians) -> None:
    phases = point.get("phases_ms") or {}
    names = sorted((n for n in {*phases, *normal.phases} if n != TOTAL), key=lambda n: -phases.get(n, 0.0))
    table = [
        {
            "Phase": name,
            "This batch": units.span(phases.get(name, 0.0) / 1000),
            "Median": units.span(normal.phases.get(name, 0.0) / 1000),
        }
        for name in names
    ]
    st.dataframe(pd.DataFrame(table), key="batch_phases", hide_index=True, alt="Phases of the batch")
    reading = cached_reads.batch(str(query["query_id"]), str(point["run_id"]), int(point["batch_id"]))
    if reading.body is None:
        st.caption(plain(reading.error or ""))
        return
    report = reading.body["report"]
    found = list(partitions(report))
    if found:
        shown = sorted(found, key=lambda row: -(row["Rows"] or 0))[:MAX_PARTITIONS]
        st.caption(skew([row["Rows"] for row in found if row["Rows"] is not None]))
        st.dataframe(
            pd.DataFrame(shown), key="batch_partitions", hide_index=True, placeholder="–", alt="Partitions"
        )
    st.json(report, expanded=False)


def partitions(report: Json) -> Iterator[dict[str, Any]]:
    """Offsets of each partition where a source's offsets are `{topic: {partition: offset}}`, as Kafka's are."""
    for source in report.get("sources") or ():
        starts, ends, heads = (source.get(name) for name in ("startOffset", "endOffset", "latestOffset"))
        for topic, parts in (ends if isinstance(ends, dict) else {}).items():
            for part, end in (parts if isinstance(parts, dict) else {}).items():
                start, head = _at(starts, topic, part), _at(heads, topic, part)
                last = units.number(end)
                yield {
                    "Partition": one_line(f"{topic}/{part}"),
                    "Rows": None if last is None or start is None else int(last - start),
                    "Start": start,
                    "End": last,
                    "Backlog": None if last is None or head is None else int(max(0.0, head - last)),
                }


def _at(offsets: object, topic: str, part: str) -> float | None:
    parts = offsets.get(topic) if isinstance(offsets, dict) else None
    return units.number(parts.get(part)) if isinstance(parts, dict) else None


def skew(counts: Sequence[int]) -> str:
    """How evenly the rows of a batch are spread over its partitions."""
    if len(counts) < 2 or not sum(counts):
        return "Offsets by partition."
    largest, mean = max(counts), sum(counts) / len(counts)
    if largest < 2 * mean:
        return f"{len(counts)} partitions with rows spread evenly."
    return f"Skewed: one of {len(counts)} partitions has {largest / sum(counts):.0%} of the rows."
