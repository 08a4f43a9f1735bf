"""Statistics of rules over past firings, and what they advise."""

from __future__ import annotations

from alerts.acknowledgements import Acknowledgement
from alerts.rules.loader import load
from alerts.rules.pack import render
from alerts.state import Alert, AlertState
from controlplane.alerting.rule_statistics import RuleStatistics, rule_statistics
from controlplane.store.alerting import StoredAlert
from tests.unit.controlplane.alerting.conftest import AlertingServices

GROUPS, _ = load(render())
RULES = [rule for group in GROUPS for rule in group.rules]
NOW, INTERVAL = 100_000.0, 300.0


def firing(
    rule: str, fired: float, seconds: float | None, query: str = "orders", **labels: str
) -> StoredAlert:
    ended = None if seconds is None else fired + seconds
    state = AlertState.FIRING if ended is None else AlertState.RESOLVED
    own = {"alertname": rule, "severity": "warning", "query": query, "app": "shop", **labels}
    return StoredAlert("g", rule, Alert(rule, own, {}, 1.0, state, fired - 60, fired, ended), "")


def statistics(
    *episodes: StoredAlert, acknowledged: tuple[Acknowledgement, ...] = ()
) -> list[RuleStatistics]:
    return rule_statistics(episodes, acknowledged, RULES, lambda labels: INTERVAL, NOW)


def test_short_firings_that_nobody_acknowledged_are_useless() -> None:
    short, known, whole = (
        firing("RetentionRisk", at, length) for at, length in ((0, 60), (5000, 60), (9000, 7200))
    )
    fingerprint = known.alert.fingerprint
    (found,) = statistics(
        short,
        known,
        whole,
        firing("RetentionRisk", NOW - 50, None),
        acknowledged=(Acknowledgement(fingerprint, 5000.0, "ann", 5010.0),),
    )
    assert (found.firings, found.queries, found.acknowledged, found.useless, found.firing_now) == (
        4,
        1,
        1,
        1,
        1,
    )
    assert (found.median_seconds, found.total_seconds, found.advice) == (60, 7370, "")


def test_the_time_that_a_rule_keeps_firing_is_not_its_condition() -> None:
    """LagSecondsHigh fires for ten minutes beyond its condition."""
    brief, whole = statistics(firing("LagSecondsHigh", 0, 700), firing("Stuck", 0, 700, severity="critical"))
    assert (brief.rule, brief.useless, whole.rule, whole.useless) == ("LagSecondsHigh", 1, "Stuck", 0)


def test_the_advice_names_the_threshold_and_the_query_that_fires_most() -> None:
    often = [firing("LagSecondsHigh", 4000.0 * n, 640, "orders" if n else "clicks") for n in range(6)]
    (found,) = statistics(*often)
    assert found.advice == (
        "6 of 6 firings ended by themselves before anybody could act. "
        "Record spark_streaming_threshold:lag_seconds for orders."
    )
    (other,) = statistics(*(firing("LongBatch", 4000.0 * n, 250) for n in range(6)))
    assert other.advice.endswith("Lengthen its `for`, or lower its severity.")
    assert statistics(*often[:4])[0].advice == ""


def test_the_statistics_come_from_the_stored_history(services: AlertingServices) -> None:
    services.series.set("slow", 1, app="shop")
    services.tick()
    (found,) = services.queries.rule_statistics(0.0, services.clock.now)
    assert (found.rule, found.firings, found.firing_now) == ("Slow", 1, 1)
