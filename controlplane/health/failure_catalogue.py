"""The catalogue of failure causes, read from `failures.toml`: retry policy and advice for the person on call.

Called by `controlplane.health.failures`, which finds the conditions in an exception's text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class FailureRule:
    """What to do about one kind of failure.

    `retry`: `now`, `later`, `once` or `never`; `failures.toml` explains the fields.
    """

    names: tuple[str, ...]
    retry: str
    advice: str
    vague: bool = False
    wrapper: bool = False
    by_overload: bool = False


UNKNOWN = FailureRule(
    (),
    "once",
    "Read the root cause and restart the query once; if it fails the same way, correct the cause first.",
)


def rule_of(condition: str) -> FailureRule | None:
    """The rule of a condition, of its parent, or of its family; None where it is not in the catalogue."""
    parent = condition.partition(".")[0]
    family = next((f"{prefix}*" for prefix in _FAMILIES if parent.startswith(prefix)), "")
    return _BY_NAME.get(condition) or _BY_NAME.get(parent) or _BY_NAME.get(family)


def kind_of_messages(messages: Iterable[str]) -> str | None:
    """The name, for `rule_of`, of the first message that matches a pattern; None if none does."""
    return next((name for message in messages for text, name in PATTERNS if text.search(message)), None)


def _rule(entry: dict[str, Any]) -> FailureRule:
    wrapper = entry.get("wrapper", False)
    names = tuple(entry["names"].split())
    vague, by_overload = entry.get("vague", False) or wrapper, entry.get("by_overload", False)
    return FailureRule(names, entry["retry"], entry["advice"], vague, wrapper, by_overload)


_FILE = tomllib.loads(files("controlplane.health").joinpath("failures.toml").read_text("utf-8"))
RULES = tuple(_rule(entry) for entry in _FILE["rule"])
_BY_NAME = {name: rule for rule in RULES for name in rule.names}
_FAMILIES = sorted((name[:-1] for name in _BY_NAME if name.endswith("*")), key=len, reverse=True)
PATTERNS = tuple((re.compile(entry["text"]), entry["rule"]) for entry in _FILE["pattern"])
