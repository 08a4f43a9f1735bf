"""Rules and rule groups of a Prometheus rule file. Durations are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RuleKind(StrEnum):
    """Alerting rule or recording rule."""

    ALERT = "alert"
    RECORD = "record"


@dataclass(frozen=True)
class Rule:
    """A rule. `expr` is the expression as written, `node` its syntax tree; `line` counts from 1.

    `for_`: seconds the condition must hold before the alert fires. `keep_firing_for`: seconds the alert keeps
    firing after the condition ends. `queries`: syntax trees of the queries in its templates.
    """

    kind: RuleKind
    name: str
    expr: str
    node: Any = field(compare=False)
    for_: float = 0.0
    keep_firing_for: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    queries: tuple[Any, ...] = field(default=(), compare=False)

    @property
    def expressions(self) -> tuple[Any, ...]:
        """The syntax trees of all that the rule reads: its expression and the queries of its templates."""
        return (self.node, *self.queries)


@dataclass(frozen=True)
class RuleGroup:
    """Rules that are evaluated in order, at one time. `interval` None: the server's default.

    `limit`: maximum number of alerts (or series) of one rule; more are an evaluation error; 0: no limit.
    `source`: name of the file, for messages.
    """

    name: str
    rules: tuple[Rule, ...]
    interval: float | None = None
    limit: int = 0
    query_offset: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    @property
    def key(self) -> str:
        """Unique among all loaded groups and stable across restarts."""
        return f"{self.source};{self.name}"
