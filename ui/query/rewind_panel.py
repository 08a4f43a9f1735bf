"""Rewinds of the checkpoint: its batches, which of them can run next, the plan for one, and the button that does it.

Part of the checkpoint panel. The server reads the checkpoint when a viewer asks, so the answer is kept until then, not
refreshed. The command under the plan does the same where the server may not change the checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from ui.actions import change_dialog
from ui.checkpoints import assessment
from ui.kit import action_checks, cached_reads, cells, units, widgets
from ui.kit.answers import ClientError
from ui.kit.frames import Json
from ui.kit.markup import one_line, plain
from ui.query import repair_panel

INTRODUCTION = (
    "Make a stopped query run an earlier batch next. The server reads the checkpoint and shows what a rewind would do "
    "before anything is changed."
)


def draw(identity: str, role: str | None) -> None:
    """Draw the part: a button that reads the checkpoint, and what was found."""
    st.markdown("**Rewind**")
    st.caption(INTRODUCTION)
    refused = action_checks.role_refusal(role, "Rewinds")
    st.button(
        "List batches",
        key="rewind_list",
        icon=":material/history:",
        disabled=refused is not None,
        help=plain(refused) if refused else None,
        on_click=_read,
        args=(identity,),
    )
    kept = _kept(identity)
    if kept.get("error"):
        st.caption(f":orange[:material/warning:] {plain(kept['error'])}")
    if kept.get("body"):
        _batches(identity, kept["body"], kept["at"])


def _kept(identity: str) -> dict[str, Any]:
    kept = st.session_state.get(change_dialog.REWINDS)
    return kept if kept and kept["query_id"] == identity else {}


def _read(identity: str) -> None:
    """Read the checkpoint (the button's callback)."""
    kept: dict[str, Any] = {"query_id": identity, "at": time.time(), "plans": {}}
    try:
        kept["body"] = cached_reads.connection().planned_change(identity, "rewind")
    except ClientError as error:
        kept["error"] = str(error)
    st.session_state[change_dialog.REWINDS] = kept


def _batches(identity: str, body: Json, at: float) -> None:
    found = body.get("batches") or []
    if not found:
        st.caption("There is no earlier batch: the query starts at batch 0.")
        return
    read_at = units.clock(at, widgets.zone(), time.time())
    st.caption(f"Batch {body.get('next_batch')} runs next, as of {read_at}.")
    st.dataframe(
        frame(found),
        key="rewind_batches",
        column_config={
            "batch": cells.integer("Batch"),
            "committed": cells.time("Committed", widgets.zone()),
            "rows": cells.count("Input rows", 100),
            "next": cells.text("Can run next"),
        },
        hide_index=True,
        height=min(widgets.table_height(len(found)), 250),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="Batches in the checkpoint's logs, newest first",
    )
    possible = [item["batch"] for item in found if item.get("possible")]
    chosen = st.selectbox(
        "Batch to run next", possible, index=None, key="rewind_to", placeholder="Select a batch", width=220
    )
    if chosen is not None:
        _plan(identity, int(chosen))


def frame(batches: Sequence[Json]) -> pd.DataFrame:
    """One row a batch: number, time of its commit, input rows, and whether it can run next, else why not."""
    rows = [
        (
            item.get("batch"),
            units.moment(item.get("committed_at")),
            units.number(item.get("input_rows")),
            "yes" if item.get("possible") else one_line(f"no: {item.get('reason')}"),
        )
        for item in batches
    ]
    made = pd.DataFrame(rows, columns=["batch", "committed", "rows", "next"])
    return made.assign(committed=pd.to_datetime(made["committed"], unit="s", utc=True))


def _plan(identity: str, resume_at: int) -> None:
    plans: dict[int, Mapping[str, Any]] = _kept(identity)["plans"]
    if resume_at not in plans:
        try:
            plans[resume_at] = cached_reads.connection().planned_change(
                identity, "rewind", [("resume_at", resume_at)]
            )
        except ClientError as error:
            plans[resume_at] = {"error": str(error)}
    found = plans[resume_at]
    plan = found.get("plan")
    if not plan:
        st.caption(f":orange[:material/warning:] {plain(found.get('error') or 'no plan')}")
        return
    found_facts = facts(plan)
    widgets.definition_list(found_facts)
    body = {"resume_at": resume_at}
    change_dialog.button("rewind", "rewind_do", repair_panel.refusal(found), identity, body, found_facts)
    command = str(found.get("command") or "")
    for line in assessment.safe_commands([f"{command} --dry-run", command]):
        st.code(line, language="bash", wrap_lines=True)


def facts(plan: Json) -> list[tuple[str, str]]:
    """What the rewind does and what follows, as pairs of a label and a sentence."""
    again = units.number(plan.get("rows_again"))
    rows = (
        "Unknown: not every batch that runs again has a report."
        if again is None
        else units.count(again, "rows")
    )
    title, *rest = repair_panel.change_facts("Rewind", plan)
    unchecked = "Whether the input of those batches still exists. The command checks the input files."
    return [title, ("Read again", rows), ("Not checked", unchecked), *rest]
