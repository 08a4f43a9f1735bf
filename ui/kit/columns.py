"""Columns of the Actions and Query pages' tables: labels, widths, formats.

The keys are the columns of the tables that `ui.kit.frames` builds.
"""

from __future__ import annotations

from datetime import tzinfo

import streamlit as st

from ui.kit import cells, statuses
from ui.kit.cells import Columns, Opener


def actions(zone: tzinfo, opener: Opener) -> Columns:
    """The Actions page's table; `opener` opens a query."""
    return {**_actions(zone), "query": cells.link("Query", 170, opener)}


def _actions(zone: tzinfo) -> Columns:
    return {
        "state": cells.badges("State", statuses.ACTION_STATES.values(), 112),
        "action": cells.text("Action", 170),
        "app": cells.text("App", 90),
        "actor": cells.text("Requested by", 120),
        "why": cells.text("Reason", 220),
        "outcome": cells.text("Outcome", 320),
        "requested": cells.time("Requested", zone),
        "took": cells.seconds("Duration", 90),
    }


def ledger(zone: tzinfo, opener: Opener) -> Columns:
    """The Ledger page's table; `opener` opens a query."""
    return {
        "decision": cells.badges("Decision", statuses.DECISIONS.values(), 100),
        "query": cells.link("Query", 170, opener),
        "app": cells.text("App", 90),
        "policy": cells.text("Policy", 140),
        "why": cells.text("Reason", 340),
        "outcome": cells.text("Outcome", 260),
        "decided": cells.time("Decided", zone),
    }


def query_actions(zone: tzinfo) -> Columns:
    """The actions of a single query."""
    return {**_actions(zone), "query": None, "app": None}


def runs(zone: tzinfo) -> Columns:
    """Runs of a query."""
    return {
        "run": cells.text("Run", 90),
        "started": cells.time("Started", zone),
        "ended": cells.time("Ended", zone),
        "end": cells.text("End", 90),
        "first": cells.integer("First batch", 90),
        "last": cells.integer("Last batch", 90),
        "batches": cells.count("Batches"),
        "driver": cells.text("Driver", 90),
        "failure": cells.text("Failure"),
    }


def sources() -> Columns:
    """Sources of a query in its last batch."""
    return {
        "source": cells.text("Source", 260),
        "lag_rows": cells.count("Backlog"),
        "input_rows": cells.count("Input rows", 90),
        "input": cells.count("Input rate", 90),
        "processed": cells.count("Processing rate", 120),
        "start": cells.text("Start offset", 190),
        "end": cells.text("End offset", 190),
        "latest": cells.text("Latest offset", 190),
        "metrics": cells.text("Metrics"),
    }


def changes(zone: tzinfo) -> Columns:
    """Status changes of a query."""
    return {
        "at": cells.time("At", zone),
        "status": cells.badges("Status", statuses.STATUSES.values(), 112),
        "reason": cells.text("Reason", 1000),
    }


def operators() -> Columns:
    """Stateful operators of a query in its last batch."""
    return {
        "operator": cells.text("Operator", 220),
        "rows": cells.count("Rows"),
        "updated": cells.count("Updated"),
        "removed": cells.count("Removed"),
        "dropped": cells.count("Dropped", 90),
        "memory": cells.size("Memory", 90),
        "commit": st.column_config.NumberColumn("Commit", format="%d ms", width=90),
        "partitions": cells.count("Partitions", 90),
        "metrics": cells.text("Metrics", 600),
    }


def facts(label: str = "Property") -> Columns:
    """Names and values; `label` heads the names."""
    return {"fact": cells.text(label, 220), "value": cells.text("Value", 1000)}
