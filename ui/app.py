"""Entry of the dashboard: the navigation, then the selected page. `ui.launch` starts it.

Streamlit runs it again for every viewer and every click; what outlives a run is in `ui.kit.cached_reads`.
"""

from pathlib import Path

import streamlit as st

from ui import sign_in_page
from ui.alerting import delivery_banner
from ui.kit import sign_in, widgets

ASSETS = Path(__file__).with_name("assets")

# Both images are files: the browser would fetch a Material icon for its tab from a font server.
st.set_page_config(page_title="Spark control plane", page_icon=str(ASSETS / "icon.svg"), layout="wide")
st.html(widgets.STYLE)
st.logo(str(ASSETS / "logo.svg"), size="medium")

admitted = sign_in.is_admitted()
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
            help="One query: verdict, charts, runs and failures. Stop, start or restart it here.",
        ),
        st.Page(
            "app_pages/checkpoints.py",
            title="Checkpoints",
            icon=":material/flag:",
            url_path="checkpoints",
            help="Checkpoint health of every query, worst first.",
        ),
        st.Page(
            "app_pages/applications.py",
            title="Applications",
            icon=":material/deployed_code:",
            url_path="applications",
            help="Every declared application: its driver, version and queries. Start, stop or restart it here.",
        ),
        st.Page(
            "app_pages/incidents.py",
            title="Incidents",
            icon=":material/hub:",
            url_path="incidents",
            help="Queries that failed with one cause: who was notified, who has it, what was done.",
        ),
        st.Page(
            "app_pages/alerts.py",
            title="Alerts",
            icon=":material/notifications:",
            url_path="alerts",
            help="Firing alerts and their notifications. Acknowledge or silence them here.",
        ),
        st.Page(
            "app_pages/rules.py",
            title="Rules",
            icon=":material/rule:",
            url_path="rules",
            help="Alerting and recording rules with their state and last evaluation.",
        ),
        st.Page(
            "app_pages/actions.py",
            title="Actions",
            icon=":material/history:",
            url_path="actions",
            help="Every stop, start and restart: who requested it, why, and the outcome.",
        ),
        st.Page(
            "app_pages/ledger.py",
            title="Ledger",
            icon=":material/fact_check:",
            url_path="ledger",
            help="Every decision of the restart policies, and what automation was worth.",
        ),
        st.Page(
            "app_pages/server.py",
            title="Server",
            icon=":material/dns:",
            url_path="server",
            help="The server itself: stages, store, quotas and receivers.",
        ),
        st.Page(
            "app_pages/runbook.py",
            title="Runbook",
            icon=":material/menu_book:",
            url_path="runbook",
            visibility="hidden",  # reached by links from alerts
        ),
    ],
    position="top" if admitted else "hidden",
)
if admitted:
    sign_in_page.draw_line()
    widgets.page_title(page.title)
    delivery_banner.draw()
    page.run()
else:
    sign_in_page.draw_log_in()
