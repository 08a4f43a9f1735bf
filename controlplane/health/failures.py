"""Turn Spark's exception text into a failure: error condition, root cause, whether to retry, what to do.

Spark and py4j wrap errors: conditions are read from the whole text, and the innermost specific one counts.
Called by the API, `controlplane.actions` and `controlplane.health.terminal_status`; `failures.toml` holds the
catalogue.
"""

from __future__ import annotations

import re
from functools import lru_cache

from controlplane.health.failure_catalogue import UNKNOWN, FailureRule, kind_of_messages, rule_of
from controlplane.model import Failure

#: Only the two ends of a longer text are read: the outermost message and the innermost cause.
MAX_CHARS = 200_000
MAX_MESSAGE_CHARS = 500
MAX_HEADLINE_CHARS = 120
#: The kind becomes a label value.
MAX_KIND_CHARS = 200
UNKNOWN_KIND = "unknown"

#: The advice on a failure that an overload explains.
OVERLOADED = (
    "Free the driver's host, then restart the query: it was overloaded ({}), so Spark's own processes or the "
    "services that it calls did not answer in time. If the error returns on an idle host, check the service that "
    "the root cause names."
)

_CONDITION = re.compile(r"\[(_?[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_CAUSED_BY = re.compile(r"^[ \t]*Caused by: ", re.MULTILINE)
_FRAME = re.compile(r"[ \t]+at \S|[ \t]*\.\.\. \d+ (more|elided)|(Driver|JVM) stacktrace:")
_PLAN = re.compile(
    r"^=== Streaming Query ===$.*?(?=^[ \t]+at |^Caused by: |^JVM stack|\Z)", re.MULTILINE | re.DOTALL
)
_ENVELOPE = re.compile(r"^.*?terminated with exception: |\s*SQLSTATE: \w{5}")
_TRACEBACK = "Traceback (most recent call last):"


@lru_cache(maxsize=512)
def explain(text: str | None, error_class: str | None = None, overload: str | None = None) -> Failure:
    """Explain a failed run or start to the person on call. Never raises; `text` is returned unchanged.

    `error_class` is Spark's `errorClassOnException`: null for most errors of checkpoint logs, and often a
    wrapper. `overload`: why the driver's host was overloaded at that time (`health.host.overload`).
    """
    shortened = _shortened(text or "")
    conditions = _conditions(shortened, error_class)
    causes = _causes(shortened)
    condition, root_cause = _condition(conditions), _root_cause(causes)
    message_kind = kind_of_messages(reversed(causes))
    rule = _rule(conditions, message_kind)
    return Failure(
        condition,
        _message(shortened, condition, causes, root_cause),
        root_cause,
        rule.retry,
        OVERLOADED.format(overload) if overload and rule.by_overload else rule.advice,
        text or "",
        _kind(condition, message_kind),
    )


def headline(failure: Failure) -> str:
    """A failure in one line: the change that caused it, else its condition, with the root cause inside a wrapper."""
    if failure.change is not None:
        return f"The query was changed: {failure.change}"
    inside = failure.root_cause or failure.message
    if failure.condition is None:
        return inside[:MAX_HEADLINE_CHARS]
    return (
        f"{failure.condition} ({inside[:MAX_HEADLINE_CHARS]})"
        if _is_wrapper(failure.condition)
        else failure.condition
    )


def _shortened(text: str) -> str:
    """The text cut to `MAX_CHARS`, without the plan dump, in which names in brackets are columns."""
    if len(text) > MAX_CHARS:
        text = f"{text[: MAX_CHARS // 2]}\n{text[-MAX_CHARS // 2 :]}"
    return _PLAN.sub("", text)


def _conditions(text: str, error_class: str | None) -> list[str]:
    """Every condition in the text, innermost first; `error_class` comes last because it is often a wrapper."""
    named = [match.group(1) for match in _CONDITION.finditer(text)][::-1]
    return list(dict.fromkeys([*named, *([error_class] if error_class else [])]))


def _condition(conditions: list[str]) -> str | None:
    """The innermost condition that is not a wrapper; else the innermost wrapper except STREAM_FAILED."""
    specific = (name for name in conditions if not _is_wrapper(name))
    wrappers = (name for name in conditions if name != "STREAM_FAILED")
    return next(specific, None) or next(wrappers, None)


def _is_wrapper(condition: str) -> bool:
    rule = rule_of(condition)
    return rule is not None and rule.wrapper


def _rule(conditions: list[str], message_kind: str | None) -> FailureRule:
    """The rule of the innermost specific condition, else of the messages, else of a vague condition."""
    known = [rule for name in conditions if (rule := rule_of(name)) is not None]
    specific = next((rule for rule in known if not rule.vague), None)
    return specific or (rule_of(message_kind) if message_kind else None) or next(iter(known), UNKNOWN)


def _kind(condition: str | None, message_kind: str | None) -> str:
    """The condition; if it is missing or a wrapper, the kind of the messages (Spark 3 names few)."""
    kind = condition if condition and not _is_wrapper(condition) else message_kind or condition
    return (kind or UNKNOWN_KIND)[:MAX_KIND_CHARS]


def _causes(text: str) -> list[str]:
    """The messages along the chain of causes, outermost first, without stack frames."""
    return [cause for block in _CAUSED_BY.split(text) if (cause := _without_frames(block))]


def _without_frames(block: str) -> str:
    return "\n".join(line for line in block.splitlines() if line.strip() and not _FRAME.match(line)).strip()


def _root_cause(causes: list[str]) -> str | None:
    """The innermost cause in one line; None where there is only the message itself."""
    if not causes or (len(causes) == 1 and _TRACEBACK not in causes[0]):
        return None
    return _first_line(_python_error(causes[-1]) or causes[-1])


def _python_error(cause: str) -> str | None:
    """The last line of a Python traceback; for py4j's wrapper, the Java error inside it."""
    _, found, rest = cause.rpartition(_TRACEBACK)
    ending = [line for line in rest.splitlines() if line and not line[0].isspace()]
    if not found or not ending:
        return None
    java = [line[2:] for line in ending[1:2] if line.startswith(": ")]
    return (java or ending)[0]


def _message(text: str, condition: str | None, causes: list[str], root_cause: str | None) -> str:
    """The condition's own message in one line, else the outermost message; for a wrapper, the root cause."""
    if condition and _is_wrapper(condition) and root_cause:
        return root_cause
    if condition and (at := text.rfind(f"[{condition}]")) >= 0:
        return _first_line(text[at + len(condition) + 2 :])
    return _first_line(causes[0]) if causes else (condition or "no exception text")


def _first_line(text: str) -> str:
    line = next((line for line in text.strip().splitlines() if line.strip()), "")
    return _ENVELOPE.sub("", line).strip()[:MAX_MESSAGE_CHARS]
