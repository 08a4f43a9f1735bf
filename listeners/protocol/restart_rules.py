"""Rules of restarts that server and agent share: the back-off, and the class of a failure by the catalogue's names.

The server sends the names with each lease (`controlplane.supervision.driver_grants`); the agent decides by them
(`listeners.commands.restart_leases`). Pure.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

#: Only the two ends of a longer text are read: the outermost message and the innermost cause.
MAX_CHARS = 200_000
NOW, NEVER, ASK = "now", "never", "ask"
_CONDITION = re.compile(r"\[(_?[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_CAUSED_BY = re.compile(r"^[ \t]*Caused by: ", re.MULTILINE)


def restart_delay(
    initial: float, factor: float, longest: float, jitter: float, attempts: int, seed: str, least: float = 0.0
) -> float:
    """Seconds from the failure to the restart after `attempts` earlier ones. `seed` fixes the jitter."""
    # The power is bounded so that it cannot overflow.
    steady = max(min(initial * factor ** min(attempts, 60), longest), least)
    fraction = zlib.crc32(f"{seed}/{attempts}".encode()) / 0xFFFFFFFF
    return steady * (1.0 + jitter * (2.0 * fraction - 1.0))


class JudgedFailure(NamedTuple):
    """`retry`: `now`, `never`, or `ask` where only the server can decide; `condition`: what it was judged by."""

    retry: str
    condition: str


@dataclass(frozen=True)
class RetryNames:
    """Retry classes by name: of conditions (a parent includes its sub-conditions, a trailing * is a prefix) and kinds.

    `patterns`: (regular expression, kind) of messages, the first match counts.
    """

    names: Mapping[str, str]
    patterns: Sequence[Sequence[str]] = ()

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> RetryNames:
        """From a lease's `retry`."""
        return cls(document.get("names") or {}, document.get("patterns") or ())

    def judge(self, text: str, error_class: str | None) -> JudgedFailure:
        """Whether a restart helps at once. Stricter than the server: a condition that is never retried counts anywhere."""
        if len(text) > MAX_CHARS:
            text = f"{text[: MAX_CHARS // 2]}\n{text[-MAX_CHARS // 2 :]}"
        named = [match.group(1) for match in _CONDITION.finditer(text)][::-1]
        known = [(name, self._class_of(name)) for name in [*named, *([error_class] if error_class else [])]]
        never = next((name for name, found in known if found == NEVER), None)
        if never is not None:
            return JudgedFailure(NEVER, never)
        kind = self._kind_of(text)
        specific = next(((name, found) for name, found in known if found), None)
        name, found = specific or (kind, self._class_of(kind) if kind else "")
        return JudgedFailure(found if found in (NOW, NEVER) else ASK, name or "unknown")

    def _class_of(self, name: str) -> str:
        """The class of a name, of its parent or of its family; empty where it has none of its own."""
        parent = name.partition(".")[0]
        for known in (name, parent):
            if known in self.names:
                return str(self.names[known])
        families = [n for n in self.names if n.endswith("*") and parent.startswith(n[:-1])]
        return str(self.names[max(families, key=len)]) if families else ""

    def _kind_of(self, text: str) -> str:
        blocks = _CAUSED_BY.split(text)[::-1]
        return next(
            (kind for block in blocks for expression, kind in self.patterns if re.search(expression, block)),
            "",
        )
