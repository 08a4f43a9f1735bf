"""Runbook: what to look at and to do when an alert of the shipped rules fires (`?name=LagGrowing`).

The text is the server's own, which is why Markdown is let through here and nowhere else.
"""

import re

import streamlit as st

from ui.kit import cached_reads, widgets

_LINK = re.compile(r"\]\((\w+)\.md\)")

name = (st.query_params.get("name") or "").removesuffix(".md")
if not name:
    st.caption("An alert leads here. The pages are named by alerts: `?name=LagGrowing`.")
else:
    reading = cached_reads.runbook(name)
    widgets.banner(reading)
    if reading.body is not None:
        with st.container(width=820):
            st.markdown(_LINK.sub(r"](runbook?name=\1)", str(reading.body.get("text") or "")))
            st.page_link("app_pages/alerts.py", label="Alerts", icon=":material/notifications:")
