"""Rules and groups of rules, as a rule file states them. Durations are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RuleKind(StrEnum):
    """A rule raises alerts, or records a series."""

    ALERT = "alert"
    RECORD = "record"


@dataclass(frozen=True)
class Rule:
    """One rule. `expr` is the text as written, `node` the same parsed; `line` (from 1) is where it stands.

    `for_`: how long the condition must hold before the alert fires. `keep_firing_for`: how long it may be
    gone before the alert ends.
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


@dataclass(frozen=True)
class RuleGroup:
    """Rules that are evaluated in their order, at one time. `interval` None: the server's own.

    `limit`: more alerts (or series) than this of one rule are an error of the rule; 0: no limit.
    `source` is the file, for people.
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
        """Unique among all groups that are loaded, and the same after a restart."""
        return f"{self.source};{self.name}"
