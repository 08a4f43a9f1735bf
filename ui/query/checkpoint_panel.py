"""Checkpoint panel of the Query page: the verdict, and folded below it all that it is based on.

`ui/app_pages/query.py` calls `draw`. The panel refreshes by itself, every second while a new inventory is
expected. Whether it is unfolded is in the address (`?checkpoint=true`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.actions import change_dialog, dialogs
from ui.checkpoints import assessment, columns, findings, frames, inventory_request
from ui.kit import answers, cached_reads, statuses, units, widgets
from ui.kit.frames import Json
from ui.kit.markup import one_line, plain, visible
from ui.query import repair_panel, rewind_panel

POLL_SECONDS = 1.0  # while a new inventory is expected


def draw(query: Json, role: str | None) -> None:
    """Draw the panel in a container of its own, so that what follows keeps its place."""
    identity = str(query.get("query_id"))
    with st.container():
        if reason := assessment.irrelevance(query):
            st.caption(f":material/flag: Checkpoint: {plain(reason)}")
            return
        awaited = _read(identity)[1]
        every = POLL_SECONDS if awaited else widgets.refresh_seconds()
        st.fragment(run_every=every)(_panel)(identity, role, awaited)


def _read(identity: str) -> tuple[answers.CachedRead, bool]:
    """What is known, and whether a new inventory is expected."""
    now = time.time()
    reading = cached_reads.checkpoint(identity, quick=inventory_request.is_awaited(identity, now))
    checkpoint = (reading.body or {}).get("checkpoint") or {}
    request = inventory_request.refresh(identity, checkpoint)
    return reading, inventory_request.is_waiting(request, checkpoint, now)


def _panel(identity: str, role: str | None, drawn: bool) -> None:
    (reading, awaited), now = _read(identity), time.time()
    in_dialog = dialogs.open_request(identity) or change_dialog.open_request(identity)
    if awaited != drawn and not in_dialog:  # it would lose what is being typed
        st.rerun()  # with another refresh interval
    if reading.body is None:
        st.caption(f":material/flag: Checkpoint: {plain(_nothing(reading))}")
        return
    checkpoint = reading.body.get("checkpoint") or {}
    request = inventory_request.current(identity)
    with st.container(border=True, gap="xsmall", key="checkpoint_panel"):
        _head(checkpoint, identity, role, awaited, now)
        st.text(visible(assessment.sentence(checkpoint)))
        _failure(checkpoint, request, now)
        folded = st.expander(
            "Details", key="checkpoint", type="compact", on_change="rerun", bind="query-params"
        )
        if folded.open:
            with folded:
                _details(reading.body, now)
                rewind_panel.draw(identity, role)
                repair_panel.draw(identity, role)
                repair_panel.draw_undo(cached_reads.query(identity).body or {}, role)


def _nothing(reading: answers.CachedRead) -> str:
    if reading.kind == "missing":
        return f"not known ({str(reading.error).rstrip('.')})."
    return str(reading.error)


def _head(checkpoint: Json, identity: str, role: str | None, awaited: bool, now: float) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**Checkpoint**", width="content")
        widgets.badge(statuses.verdict(checkpoint.get("verdict") or "unknown"))
        if checkpoint.get("stale"):
            st.badge("Stale", icon=":material/history:", color="yellow", help=STALE_HELP)
        st.caption(_last_check(checkpoint, identity, awaited, now), width="stretch")
        refused = assessment.check_refusal(role)
        if st.button(
            "Check now",
            key="check_now",
            icon=":material/refresh:",
            disabled=awaited or refused is not None,
            help=plain(refused) if refused else None,
            on_click=inventory_request.send,
            args=(identity, checkpoint.get("collected_at")),
        ):
            st.rerun()  # the whole page: it sets the refresh interval


STALE_HELP = (
    "A run started or ended since the last check, or it is over 5 min old and batches were committed since."
)


def _last_check(checkpoint: Json, identity: str, awaited: bool, now: float) -> str:
    """Who checks now, and the last check; on one line, so that nothing below moves."""
    checked, request = plain(assessment.last_check(checkpoint, now)), inventory_request.current(identity)
    if awaited and request:
        return f":material/hourglass_top: {inventory_request.collector_name(request)} is checking … {checked}"
    return f":material/hourglass_top: checking … {checked}" if checkpoint.get("collecting") else checked


def _failure(checkpoint: Json, request: inventory_request.InventoryRequestState | None, now: float) -> None:
    """Why the checkpoint is not checked, or why the last request returned nothing."""
    with st.container():
        reason = inventory_request.failure(request, checkpoint, now)
        if not reason and checkpoint.get("trouble") != checkpoint.get("summary"):
            reason = str(checkpoint.get("trouble") or "")
        if reason:
            st.caption(f":orange[:material/warning:] {plain(reason)}")


def _details(found: Json, now: float) -> None:
    checkpoint, growth = found["checkpoint"], found.get("growth") or []
    if units.moment(checkpoint.get("collected_at")) is not None:
        with st.grid(5, min_column_width=150, gap="xsmall"):
            for label, value, note, trend in numbers(checkpoint, growth, now):
                widgets.tile(label, value, note, trend)
    findings.draw_all(found.get("findings") or [], "checkpoint")
    _changes(found.get("shape"), now)
    _stores(found.get("stores") or [])
    widgets.definition_list(facts(checkpoint))
    for command in assessment.shell_commands(checkpoint):
        st.code(command, language="bash", wrap_lines=True)
    if name := assessment.runbook_name(checkpoint):
        st.page_link(
            "app_pages/runbook.py",
            label=f"Runbook {name}",
            icon=":material/menu_book:",
            query_params={"name": name},
        )


def numbers(
    checkpoint: Json, growth: Sequence[Json], now: float
) -> list[tuple[str, str, str, list[float] | None]]:
    """The tiles: label, value, note, and the values over time if there are two or more."""
    tiles: list[tuple[str, str, str, list[float] | None]] = [
        (
            "Planned",
            assessment.batch_number(checkpoint.get("last_planned_batch")),
            "newest in offsets/",
            None,
        ),
        (
            "Committed",
            assessment.batch_number(checkpoint.get("last_committed_batch")),
            "newest in commits/",
            None,
        ),
        ("Next", assessment.batch_number(checkpoint.get("next_batch")), "batch of the next start", None),
    ]
    for label, key, written in (("Size", "bytes", units.size), ("Files", "files", units.count)):
        trend = frames.known_values(growth, key)
        note = frames.growth_note(growth, key, now) or "checked once"
        tiles.append((label, written(checkpoint.get(key)), note, trend if len(trend) > 1 else None))
    return tiles


def facts(checkpoint: Json) -> list[tuple[str, str]]:
    """Path, and the Spark versions that wrote it and that it is assessed for."""
    spark, target = checkpoint.get("spark_version"), checkpoint.get("target_spark")
    written = f"written by {spark}" if spark else "writer unknown"
    assessed = f", assessed for a start with {target}" if target else ""
    return [
        ("Path", str(checkpoint.get("checkpoint") or units.UNKNOWN)),
        ("Spark", one_line(f"{written}{assessed}")),
    ]


def _changes(shape: Json | None, now: float) -> None:
    """Whether the program of this run may continue where the last run ended."""
    if not shape:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**Since the last run**", width="content")
        widgets.badge(statuses.change(shape.get("verdict")))
        st.caption(plain(_compared(shape, now)), width="content")
    if not shape.get("previous_run_id"):
        return
    changes = frames.changes(shape.get("findings") or [])
    if changes.empty:
        st.caption("No change affects the checkpoint.")
        return
    _table("changes_of_shape", changes, columns.changes(), "What changed since the last run")


def _compared(shape: Json, now: float) -> str:
    if not shape.get("previous_run_id"):
        return "first run whose plan is known, nothing to compare with"
    runs = " with ".join(str(shape.get(key) or "")[:8] for key in ("run_id", "previous_run_id"))
    return f"run {runs}, compared at {units.clock(shape.get('compared_at'), widgets.zone(), now)}"


def _stores(items: Sequence[Json]) -> None:
    if not items:
        return
    unloadable = frames.count_unloadable(items)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**State stores**", width="content")
        count = units.count(len(items))
        able = f"{unloadable} of {count} cannot" if unloadable else f"all {count} can"
        cut = f", {frames.MAX_STORES} listed" if len(items) > frames.MAX_STORES else ""
        st.caption(f"{able} load the version of the next batch{cut}", width="content")
    _table("stores", frames.stores(items), columns.stores(), "State stores, unloadable ones first")


def _table(name: str, frame: Any, config: dict[str, Any], alt: str) -> None:
    st.dataframe(
        frame,
        key=f"checkpoint_{name}",
        column_config=config,
        hide_index=True,
        height=min(widgets.table_height(len(frame)), 300),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt=alt,
    )
