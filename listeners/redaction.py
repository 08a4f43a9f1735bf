"""What must not leave the driver: values behind secret-looking keys in exception texts.

The keys are those of `spark.redaction.regex`, as Spark uses it for its own logs and pages.
"""

from __future__ import annotations

import re
from re import Pattern
from typing import Any

#: Spark's own default (core/internal/config, 4.3).
DEFAULT_REGEX = "(?i)secret|password|token|access[.]?key"
REDACTED = "*********(redacted)"
MAX_TEXT_CHARS = 32_000

_PAIR = re.compile(
    r"""(?P<key>[\w.\-]{1,200})(?P<is>["']?\s*[=:]\s*)(?P<value>"[^"]*"|'[^']*'|[^\s,;&)}\]]+)"""
)


def compiled(regex: str | None) -> Pattern[str]:
    """The session's `spark.redaction.regex`; Spark's default where it is absent or not for Python."""
    try:
        return re.compile(regex or DEFAULT_REGEX)
    except re.error:
        return re.compile(DEFAULT_REGEX)


def redact(text: str, secret_key: Pattern[str]) -> str:
    """`key=value` and `key: value` with a secret key lose the value; an overlong text keeps its two ends.

    The last lines of a Java stack trace hold the root cause, so the middle is what goes.
    """
    if len(text) > MAX_TEXT_CHARS:
        half = MAX_TEXT_CHARS // 2
        text = text[:half] + "\n… %d characters left out …\n" % (len(text) - 2 * half) + text[-half:]
    return _PAIR.sub(lambda match: _masked(match, secret_key), text)


def _masked(match: Any, secret_key: Pattern[str]) -> str:
    if secret_key.search(match.group("key")):
        return match.group("key") + match.group("is") + REDACTED
    return match.group(0)
