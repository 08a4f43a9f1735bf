"""Load a file of policies, or all its errors with line and column. Pure: the caller reads the file.

The format is in docs/supervision.md. Matchers and time intervals are those of Alertmanager's configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from alerts.errors import MatcherError
from alerts.matching.labels import Matcher, parse_matchers
from alerts.notify.configuration.intervals import IntervalReader
from alerts.time_intervals import TimeInterval
from alerts.yaml.fields import Fields
from alerts.yaml.parser import parse
from alerts.yaml.tree import DocumentError, Node, YamlScalar
from controlplane.model import QueryStatus
from controlplane.supervision.policies import (
    ParallelLimit,
    Policy,
    PolicyMode,
    PolicySet,
    RestartBudget,
    RestartRule,
    RetryClass,
    RetryDelay,
    StatusTrigger,
)

#: Statuses of a query that a restart can help.
TRIGGERS = (QueryStatus.FAILED, QueryStatus.LOST, QueryStatus.STUCK, QueryStatus.LAGGING)
CHECKPOINTS = ("not_broken", "ok")
MAX_CHARS = 200_000
MAX_POLICIES = 1_000
#: In force until a file is applied: what a restart would have done is in the ledger from the first day.
BUILT_IN = """\
policies:
  - name: default
    mode: observe
"""
_RESTART = (
    "on",
    "backoff",
    "budget",
    "drain",
    "max_parallel",
    "windows",
    "checkpoint",
    "in_driver",
    "rollback",
)


def load(text: str) -> tuple[PolicySet | None, tuple[DocumentError, ...]]:
    """Parse policies. Returns None where there is any error, and all errors in the order of lines."""
    if len(text) > MAX_CHARS:
        return None, (DocumentError(1, 1, f"the file has more than {MAX_CHARS} characters"),)
    tree, mistakes = parse(text)
    reader = _PolicyReader()
    found = reader.policy_set(tree) if tree is not None else None
    if tree is None and not mistakes:
        mistakes = (DocumentError(1, 1, "the file is empty; it needs a list of policies"),)
    errors = tuple(sorted({*mistakes, *reader.errors}))
    return (None if errors else found), errors


class _PolicyReader(IntervalReader):
    def policy_set(self, tree: Node) -> PolicySet:
        fields = self.mapping(tree, "the file", ("policies", "conditions"))
        if fields and "policies" not in fields:
            self.add_error(tree.mark, "policies is missing")
        nodes = self.items(fields, "policies")
        if len(nodes) > MAX_POLICIES:
            self.add_error(nodes[MAX_POLICIES].mark, f"more than {MAX_POLICIES} policies")
        policies = tuple(self._policy(node) for node in nodes[:MAX_POLICIES])
        self._check_order(policies, nodes)
        return PolicySet(policies, self._conditions(fields))

    def _check_order(self, policies: tuple[Policy, ...], nodes: tuple[Node, ...]) -> None:
        names: set[str] = set()
        for policy, node in zip(policies, nodes, strict=False):
            if policy.name in names:
                self.add_error(node.mark, f"policy {policy.name!r} is not unique")
            names.add(policy.name)
            if not policy.matchers and policy is not policies[-1]:
                message = f"policy {policy.name!r} matches every query, so no later policy is used; move it to the end"
                self.add_error(node.mark, message)

    def _conditions(self, fields: Fields) -> dict[str, RetryClass]:
        found = {}
        for name, value in self.pairs(fields, "conditions"):
            known = [c.value for c in RetryClass if c is not RetryClass.UNKNOWN]
            if value.value in known:
                found[name.value] = RetryClass(value.value)
            else:
                self.add_error(value.mark, f"{value.value[:40]!r} is not one of {', '.join(known)}")
        return found

    def _policy(self, node: Node) -> Policy:
        fields = self.mapping(node, "a policy", ("name", "match", "mode", "restart"))
        name = self.string(fields, "name")
        if name is None or not name.value.strip():
            self.add_error(node.mark, "a policy needs a name")
        mode = self.converted(fields, "mode", _mode) or PolicyMode.OBSERVE
        matchers = tuple(self._matchers(fields))
        if "match" in fields and not matchers:
            self.add_error(fields["match"].mark, "match is empty; leave it out to match every query")
        restart = self._restart(fields["restart"]) if "restart" in fields else RestartRule()
        return Policy(name.value.strip() if name else "", matchers, mode, restart, node.mark.line)

    def _matchers(self, fields: Fields) -> list[Matcher]:
        found: list[Matcher] = []
        for text in self.strings(fields, "match"):
            try:
                found += parse_matchers(text.value)
            except MatcherError as error:
                self.add_error(text.mark, f"match: {error}")
        return found

    def _restart(self, node: Node) -> RestartRule:
        fields, default = self.mapping(node, "restart", _RESTART), RestartRule()
        return RestartRule(
            triggers=self._triggers(fields) if "on" in fields else default.triggers,
            delay=self._delay(fields),
            budget=self._budget(fields),
            drain=bool(self.boolean(fields, "drain")),
            parallel=self._parallel(fields),
            windows=self._windows(fields),
            checkpoint=self.converted(fields, "checkpoint", _checkpoint) or default.checkpoint,
            in_driver=bool(self.boolean(fields, "in_driver")),
            rollback=bool(self.boolean(fields, "rollback")),
        )

    def _triggers(self, fields: Fields) -> tuple[StatusTrigger, ...]:
        found = [t for node in self.items(fields, "on") if (t := self._trigger(node)) is not None]
        if not found and not self.errors:
            self.add_error(fields["on"].mark, "on is empty; name at least one status")
        if len({trigger.status for trigger in found}) < len(found):
            self.add_error(fields["on"].mark, "on: a status occurs twice")
        return tuple(found)

    def _trigger(self, node: Node) -> StatusTrigger | None:
        if isinstance(node, YamlScalar):
            status = self.converted({"on": node}, "on", _status)
            return StatusTrigger(status) if status else None
        fields = self.mapping(node, "an element of on", ("status", "for"))
        if fields and "status" not in fields:
            self.add_error(node.mark, "an element of on needs a status")
        status = self.converted(fields, "status", _status)
        return StatusTrigger(status, self.seconds(fields, "for") or 0.0) if status else None

    def _section(self, fields: Fields, name: str, known: tuple[str, ...]) -> Fields:
        return self.mapping(fields[name], name, known) if name in fields else {}

    def _delay(self, fields: Fields) -> RetryDelay:
        own, default = self._section(fields, "backoff", ("initial", "factor", "max", "jitter")), RetryDelay()
        initial = self.seconds(own, "initial", 0.001) or default.initial
        longest = self.seconds(own, "max", 0.001) or max(default.longest, initial)
        if longest < initial:
            self.add_error(own["max"].mark, "max must not be less than initial")
        factor = self.converted(own, "factor", _number(1.0, 100.0)) or default.factor
        jitter = self.converted(own, "jitter", _number(0.0, 1.0))
        return RetryDelay(initial, factor, longest, default.jitter if jitter is None else jitter)

    def _budget(self, fields: Fields) -> RestartBudget:
        own = self._section(fields, "budget", ("restarts", "per", "reset_after_healthy"))
        default, restarts = RestartBudget(), self.whole_number(own, "restarts")
        seconds = self.seconds(own, "per", 0.001) or default.seconds
        reset = self.seconds(own, "reset_after_healthy", 0.001) or default.reset_seconds
        return RestartBudget(default.restarts if restarts is None else restarts, seconds, reset)

    def _parallel(self, fields: Fields) -> ParallelLimit:
        own, default = self._section(fields, "max_parallel", ("app", "fleet")), ParallelLimit()
        limits = {name: self.whole_number(own, name) for name in ("app", "fleet")}
        for name, limit in limits.items():
            if limit == 0:
                self.add_error(
                    own[name].mark, f"{name}: must be at least 1; to restart nothing, use mode: observe"
                )
        return ParallelLimit(limits["app"] or default.app, limits["fleet"] or default.fleet)

    def _windows(self, fields: Fields) -> TimeInterval:
        return TimeInterval("windows", tuple(self.period(node) for node in self.items(fields, "windows")))


def _mode(text: str) -> PolicyMode:
    return PolicyMode(_one_of(text, tuple(PolicyMode)))


def _status(text: str) -> QueryStatus:
    return QueryStatus(_one_of(text, TRIGGERS))


def _checkpoint(text: str) -> str:
    return _one_of(text, CHECKPOINTS)


def _one_of(text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise ValueError(f"{text[:40]!r} is not one of {', '.join(known)}")
    return text


def _number(least: float, most: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise ValueError(f"{text[:40]!r} is not a number from {least:g} to {most:g}")
        return value

    return convert
