"""Ledger page: every decision of the policies in the last week, its outcome, and what automation was worth.

A click on a name opens the query. The filters are in the address (`?words=&decision=&mode=`).
"""

from typing import Any

import streamlit as st

from ui.kit import cached_reads, columns, frames, statuses, widgets
from ui.kit.frames import Json
from ui.kit.markup import plain, visible

MODES = {"act": "Acted", "observe": "Observed"}


def figures(found: Json) -> None:
    """The week's figures of the modes that decided something."""
    for mode, title in MODES.items():
        counts = found.get(mode) or {}
        if not any(counts.values()):
            continue
        helped, useless, wrong = ("Helped", "Useless", "Wrong")
        if mode == "observe":
            helped, useless, wrong = ("Would have helped", "Would have been useless", "Would have been wrong")
        with st.grid(4, min_column_width=150, gap="xsmall"):
            widgets.tile(helped, str(counts.get("helped", 0)), f"{title}, last 7 days")
            widgets.tile(useless, str(counts.get("useless", 0)), "restarts that failed again")
            widgets.tile(wrong, str(counts.get("wrong", 0)), "see Outcome below")
            widgets.tile("Open", str(counts.get("open", 0)), "outcome not known yet")


def policies() -> None:
    """The policies in force, folded: the default decides nothing but observes."""
    found = cached_reads.policies().body
    if not found:
        return
    by = f", applied by {found['applied_by']}" if found.get("applied_by") else ", built in"
    with st.expander(
        plain(f"Policies in force: version {found.get('version')}{by}"), icon=":material/policy:"
    ):
        counts = [
            f"{item.get('name')}: {item.get('queries')} queries" for item in found.get("policies") or []
        ]
        st.caption(plain("; ".join(counts) or "No policy."))
        st.code(visible(found.get("text") or ""), language="yaml", height=300)
        st.caption("`controlplane policy apply FILE` changes them.")


@st.fragment(run_every=widgets.refresh_seconds())
def live(stamp: Any) -> None:
    """The part of the page that refreshes."""
    reading = cached_reads.ledger()
    with stamp:
        widgets.as_of(reading)
    widgets.follow_click()
    widgets.banner(reading)
    if reading.body is None:
        return
    figures(reading.body.get("figures") or {})
    policies()
    left, middle, right = st.columns([2, 1, 1], vertical_alignment="bottom")
    with left:
        search = widgets.search_input("words", "Search query, app, policy or reason")
    with middle:
        decisions = widgets.filter_select("Decision", list(statuses.DECISIONS), "decision", "All decisions")
    with right:
        modes = widgets.filter_select("Mode", list(MODES), "mode", "All modes")
    shown = frames.matching(reading.body.get("entries", []), search, decision=decisions, mode=modes)
    if not shown:
        st.caption(
            "No decision matches the filters." if search or decisions or modes else "No decisions yet."
        )
        return
    names = [(frames.label(entry), entry["query_id"]) for entry in shown]
    opener = ("ledger_click", widgets.open_clicked, ("ledger_click", names))
    st.dataframe(
        frames.ledger(shown),
        key="ledger_table",
        column_config=columns.ledger(widgets.zone(), opener),
        hide_index=True,
        height=widgets.table_height(len(shown)),
        row_height=widgets.ROW_HEIGHT,
        placeholder="–",
        alt="Decisions of the policies, newest first; select a name to open its query",
    )


live(widgets.header("Ledger"))
