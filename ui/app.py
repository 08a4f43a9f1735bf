"""The entry: navigation, then the page. Started by `controlplane ui`, see `ui.launch`.

Streamlit runs it anew for every viewer and every click; what lasts longer is in `ui.kit.cached_reads`.
"""

from pathlib import Path

import streamlit as st

from ui.kit import widgets

ASSETS = Path(__file__).with_name("assets")

# Both pictures are files: a Material icon in the browser's tab would be fetched from a font server.
st.set_page_config(page_title="Spark control plane", page_icon=str(ASSETS / "icon.svg"), layout="wide")
st.html(widgets.STYLE)
st.logo(str(ASSETS / "logo.svg"), size="medium")

page = st.navigation(
    [
        st.Page(
            "app_pages/fleet.py",
            title="Fleet",
            icon=":material/dashboard:",
            default=True,
            help="Every query with its verdict, worst first.",
        ),
        st.Page(
            "app_pages/query.py",
            title="Query",
            icon=":material/query_stats:",
            url_path="query",
            help="One query: its verdict, charts, runs and failures; stop, start and restart it.",
        ),
        st.Page(
            "app_pages/checkpoints.py",
            title="Checkpoints",
            icon=":material/flag:",
            url_path="checkpoints",
            help="Would each query start again from its checkpoint? Worst first.",
        ),
        st.Page(
            "app_pages/alerts.py",
            title="Alerts",
            icon=":material/notifications:",
            url_path="alerts",
            help="What fires and who was told; acknowledge and silence.",
        ),
        st.Page(
            "app_pages/rules.py",
            title="Rules",
            icon=":material/rule:",
            url_path="rules",
            help="The rules that raise alerts, and how their last evaluation went.",
        ),
        st.Page(
            "app_pages/actions.py",
            title="Actions",
            icon=":material/history:",
            url_path="actions",
            help="What was asked for, by whom, and how it ended.",
        ),
        st.Page(
            "app_pages/runbook.py",
            title="Runbook",
            icon=":material/menu_book:",
            url_path="runbook",
            visibility="hidden",  # alerts link to it
        ),
    ],
    position="top",
)
page.run()
