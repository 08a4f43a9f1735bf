"""Turns Spark's exception text into a failure: condition, root cause, whether to try again, what to do.

The wrappers that Spark and py4j put around an error never hide the one inside: conditions are read
from the whole text and the innermost specific one counts. Called by the API, the control room and
`controlplane.health.terminal_status`; the knowledge is in `failures.toml`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from controlplane.health.failure_catalogue import UNKNOWN, FailureRule, kind_of_messages, rule_of
from controlplane.model import Failure

#: Of a longer text the two ends are read: the outermost message and the innermost cause.
MAX_CHARS = 200_000
MAX_MESSAGE_CHARS = 500
MAX_HEADLINE_CHARS = 120
#: A kind is the value of a label.
MAX_KIND_CHARS = 200
UNKNOWN_KIND = "unknown"

_CONDITION = re.compile(r"\[(_?[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_CAUSED_BY = re.compile(r"^[ \t]*Caused by: ", re.MULTILINE)
_FRAME = re.compile(r"[ \t]+at \S|[ \t]*\.\.\. \d+ (more|elided)|(Driver|JVM) stacktrace:")
_PLAN = re.compile(
    r"^=== Streaming Query ===$.*?(?=^[ \t]+at |^Caused by: |^JVM stack|\Z)", re.MULTILINE | re.DOTALL
)
_ENVELOPE = re.compile(r"^.*?terminated with exception: |\s*SQLSTATE: \w{5}")
_TRACEBACK = "Traceback (most recent call last):"


@lru_cache(maxsize=512)
def explain(text: str | None, error_class: str | None = None) -> Failure:
    """What a failed run or start means to the person on call. Never raises; `text` is kept as it is.

    `error_class` is Spark's `errorClassOnException`: null for most log troubles, and often a wrapper.
    """
    read = _readable(text or "")
    conditions = _conditions(read, error_class)
    causes = _causes(read)
    condition, root_cause = _condition(conditions), _root_cause(causes)
    said = kind_of_messages(reversed(causes))
    rule = _rule(conditions, said)
    return Failure(
        condition,
        _message(read, condition, causes, root_cause),
        root_cause,
        rule.retry,
        rule.advice,
        text or "",
        _kind(condition, said),
    )


def headline(failure: Failure) -> str:
    """A failure in a few words: its condition, and what is inside where that is only a wrapper."""
    inside = failure.root_cause or failure.message
    if failure.condition is None:
        return inside[:MAX_HEADLINE_CHARS]
    return (
        f"{failure.condition} ({inside[:MAX_HEADLINE_CHARS]})"
        if _is_wrapper(failure.condition)
        else failure.condition
    )


def _readable(text: str) -> str:
    """The text without the plan dump, whose names in brackets are columns, and not endless."""
    if len(text) > MAX_CHARS:
        text = f"{text[: MAX_CHARS // 2]}\n{text[-MAX_CHARS // 2 :]}"
    return _PLAN.sub("", text)


def _conditions(text: str, error_class: str | None) -> list[str]:
    """Every condition named, innermost first; Spark's own answer last, as it often names a wrapper."""
    named = [match.group(1) for match in _CONDITION.finditer(text)][::-1]
    return list(dict.fromkeys([*named, *([error_class] if error_class else [])]))


def _condition(conditions: list[str]) -> str | None:
    """The innermost condition that is no wrapper; else the innermost wrapper, save the outermost."""
    specific = (name for name in conditions if not _is_wrapper(name))
    wrappers = (name for name in conditions if name != "STREAM_FAILED")
    return next(specific, None) or next(wrappers, None)


def _is_wrapper(condition: str) -> bool:
    rule = rule_of(condition)
    return rule is not None and rule.wrapper


def _rule(conditions: list[str], said: str | None) -> FailureRule:
    """What the innermost telling condition says; else what the messages say; else a vague condition."""
    known = [rule for name in conditions if (rule := rule_of(name)) is not None]
    telling = next((rule for rule in known if not rule.vague), None)
    return telling or (rule_of(said) if said else None) or next(iter(known), UNKNOWN)


def _kind(condition: str | None, said: str | None) -> str:
    """The condition; where there is none, or but a wrapper, what the messages tell of (Spark 3 names few)."""
    kind = condition if condition and not _is_wrapper(condition) else said or condition
    return (kind or UNKNOWN_KIND)[:MAX_KIND_CHARS]


def _causes(text: str) -> list[str]:
    """The messages along the chain of causes, outermost first, without stack frames."""
    return [cause for block in _CAUSED_BY.split(text) if (cause := _without_frames(block))]


def _without_frames(block: str) -> str:
    return "\n".join(line for line in block.splitlines() if line.strip() and not _FRAME.match(line)).strip()


def _root_cause(causes: list[str]) -> str | None:
    """The innermost cause in one line; None where the message itself is all there is."""
    if not causes or (len(causes) == 1 and _TRACEBACK not in causes[0]):
        return None
    return _sentence(_python_error(causes[-1]) or causes[-1])


def _python_error(cause: str) -> str | None:
    """What a Python traceback ends with; where that is py4j's wrapper, the Java error that it carries."""
    _, found, rest = cause.rpartition(_TRACEBACK)
    ending = [line for line in rest.splitlines() if line and not line[0].isspace()]
    if not found or not ending:
        return None
    java = [line[2:] for line in ending[1:2] if line.startswith(": ")]
    return (java or ending)[0]


def _message(text: str, condition: str | None, causes: list[str], root_cause: str | None) -> str:
    """What the condition itself says in a line, else the outermost message; of a wrapper, the root cause."""
    if condition and _is_wrapper(condition) and root_cause:
        return root_cause
    if condition and (at := text.rfind(f"[{condition}]")) >= 0:
        return _sentence(text[at + len(condition) + 2 :])
    return _sentence(causes[0]) if causes else (condition or "no exception text")


def _sentence(text: str) -> str:
    line = next((line for line in text.strip().splitlines() if line.strip()), "")
    return _ENVELOPE.sub("", line).strip()[:MAX_MESSAGE_CHARS]
