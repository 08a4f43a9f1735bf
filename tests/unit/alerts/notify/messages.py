"""Messages for tests of templates and receivers: one alert that fires, one that is resolved."""

from __future__ import annotations

from dataclasses import replace

from alerts.notify.message import AlertContext, Message, firing_first
from alerts.notify.reasons import Reason
from alerts.state import Alert
from tests.unit.alerts.examples import alert, resolved

PAGE = "http://control.example"
FIRING = replace(
    alert("QueryFailed", at=1_700_000_000.25, app="shop", query="orders", severity="critical"),
    annotations={
        "summary": "orders (shop) has failed.",
        "description": "It ended with <b>an</b> exception.",
        "runbook_url": f"{PAGE}/runbook?name=QueryFailed.md",
    },
)
RESOLVED = resolved(alert("Lag", at=1_700_000_000.0, app="shop", severity="warning"), 1_700_003_725)
KEY = '{}/{team="data"}:{app="shop"}'


def message(*alerts: Alert, key: str = KEY) -> Message:
    """A message about `alerts`; without any, about FIRING."""
    shown = firing_first(alerts or (FIRING,))
    context = AlertContext(
        f"{PAGE}/query?query_id=q1", f"{PAGE}/alerts?silence=f1", {"Probable cause": "out of memory"}
    )
    urls = {item.fingerprint: f"{PAGE}/alerts?alert={item.fingerprint}" for item in shown}
    return Message(
        "team",
        key,
        {"app": "shop"},
        shown,
        PAGE,
        Reason.FIRST,
        1_700_000_030.0,
        urls,
        {FIRING.fingerprint: context},
    )
