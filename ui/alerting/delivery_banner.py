"""Banner of every page while notifications reach nobody: what is wrong, and how to change it.

`ui.app` draws it above the page.
"""

from __future__ import annotations

import streamlit as st

from ui.kit import cached_reads
from ui.kit.markup import plain, visible

REFRESH_SECONDS = 15.0


@st.fragment(run_every=REFRESH_SECONDS)
def draw() -> None:
    """The problem as the server describes it; nothing while notifications are delivered or the server is away."""
    problem = (cached_reads.receivers().body or {}).get("problem")
    with st.container():  # always there: the page below keeps its place
        if problem:
            st.error(plain(problem.get("summary") or ""), icon=":material/notifications_off:")
            st.text(visible(problem.get("remedy") or ""))  # verbatim: people copy the option
