"""Rules that are evaluated immediately on a query's status change, and the statuses they read. Pure.

Most status changes matter to no rule (running, idle, running…), and evaluation costs time. Immediate are therefore only
rules without `for`, and only for the statuses that they name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from alerts.promql.syntax.nodes import Selector, selectors
from alerts.rules.model import Rule, RuleGroup, RuleKind
from controlplane.model import QueryStatus

STATUS = "spark_streaming_query_status"
#: Other metrics of a query that follow from its status, with the statuses that have them.
DERIVED = {
    "spark_streaming_query_failure_info": (QueryStatus.FAILED,),
    "spark_streaming_query_driver_down": (QueryStatus.FAILED, QueryStatus.UNREACHABLE),
    "spark_streaming_query_driver_silent": (QueryStatus.LOST,),
    "spark_streaming_restart_given_up": (QueryStatus.FAILED,),
    "spark_streaming_query_incident": (QueryStatus.FAILED, QueryStatus.STUCK),
}


def is_immediate(group: RuleGroup) -> bool:
    """Whether a rule of the group reads query status and has no `for`."""
    return any(True for _ in _status_selectors(group.rules))


def metrics(groups: Iterable[RuleGroup]) -> frozenset[str]:
    """The metrics that the rules of these groups select by name."""
    found = (
        _name(s) for group in groups for rule in group.rules for e in rule.expressions for s in selectors(e)
    )
    return frozenset(name for name in found if name)


def watched_statuses(groups: Iterable[RuleGroup]) -> frozenset[QueryStatus]:
    """The statuses that the immediate rules of these groups read."""
    return frozenset(
        status
        for group in groups
        for selector in _status_selectors(group.rules)
        for status in _statuses(selector)
    )


def _status_selectors(rules: Iterable[Rule]) -> Iterator[Selector]:
    for rule in rules:
        if rule.kind is RuleKind.ALERT and not rule.for_:
            yield from (
                selector for selector in selectors(rule.node) if _name(selector) in (STATUS, *DERIVED)
            )


def _name(selector: Selector) -> str | None:
    named = (m.value for m in selector.matchers if m.name == "__name__" and m.operator == "=")
    return next(named, None)


def _statuses(selector: Selector) -> Iterator[QueryStatus]:
    derived = DERIVED.get(_name(selector) or "")
    if derived is not None:
        yield from derived
        return
    wanted = [m for m in selector.matchers if m.name == "status"]
    for status in QueryStatus:
        if all(matcher.matches({"status": status.value}) for matcher in wanted):
            yield status
