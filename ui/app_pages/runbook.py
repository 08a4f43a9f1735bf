"""Runbook page: what to check and do when an alert of the shipped rules fires (`?name=LagGrowing`).

The text is the server's own; only here Markdown is rendered.
"""

import re

import streamlit as st

from ui.kit import cached_reads, widgets

_LINK = re.compile(r"\]\((\w+)\.md\)")

name = (st.query_params.get("name") or "").removesuffix(".md")
if not name:
    st.caption("No runbook selected. Open one from an alert, or by the alert's name: `?name=LagGrowing`.")
else:
    reading = cached_reads.runbook(name)
    widgets.banner(reading)
    if reading.body is not None:
        with st.container(width=820):
            st.markdown(_LINK.sub(r"](runbook?name=\1)", str(reading.body.get("text") or "")))
            st.page_link("app_pages/alerts.py", label="Alerts", icon=":material/notifications:")
