"""Alerts and rules for tests: what they do not say is usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from alerts.promql.series import Sample
from alerts.rules.model import Rule, RuleKind
from alerts.state import Alert, AlertState


def rule(name: str = "Lag", for_: float = 0.0, **given: Any) -> Rule:
    return Rule(RuleKind.ALERT, name, "expr", node=None, for_=for_, **given)


def sample(value: float = 1.0, **labels: str) -> Sample:
    return Sample({"__name__": "lag", **labels}, value)


def alert(name: str = "Lag", at: float = 1000.0, **labels: str) -> Alert:
    """One that fires since `at`."""
    named: Mapping[str, str] = {"alertname": name, **labels}
    return Alert(name, named, {"summary": f"{name} of {labels}"}, 1.0, AlertState.FIRING, at, fired_at=at)


def resolved(fires: Alert, at: float) -> Alert:
    return replace(fires, state=AlertState.RESOLVED, resolved_at=at)
