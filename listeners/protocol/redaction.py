"""Mask secrets before a text leaves the driver: values of secret keys, and credentials in URLs.

Secret keys are those of `spark.redaction.regex`, which Spark uses for its own logs and pages.
"""

from __future__ import annotations

import re
from re import Pattern

#: Spark's default (core/internal/config, 4.3).
DEFAULT_REGEX = "(?i)secret|password|token|access[.]?key"
REDACTED = "*********(redacted)"
MAX_TEXT_CHARS = 32_000

#: Only the end of a longer key is matched.
MAX_KEY_CHARS = 200

# Each pattern reads a text once, whatever it contains: no word is tried again from its middle.
_KEY = re.compile(r"""(?P<key>[\w.\-]+)(?P<is>(?:\\*["'])?\s*[=:]\s*)?""")
_VALUE = re.compile(
    r""""[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|\\+"[^"]*"|\\+'[^']*'|[^\s,;&)}\]]+""", re.DOTALL
)
#: `user:password@`. Not secrets: `container@account`, and `host:8020/`. S3 keys may contain a slash.
_USER_INFO = re.compile(r"(?<=://)[^/\s?#@:]*:(?:[^/\s?#]*@|(?!\d+/)[^\s?#@]{0,200}@)")


def compile_regex(regex: str | None) -> Pattern[str]:
    """The session's `spark.redaction.regex`; Spark's default if it is absent or not valid in Python."""
    try:
        return re.compile(regex or DEFAULT_REGEX)
    except re.error:
        return re.compile(DEFAULT_REGEX)


def redact(text: str, secret_key: Pattern[str]) -> str:
    """Mask the values of secret keys (`key=value`, `key: value`) and the user info of URLs; cut a long text.

    A text over MAX_TEXT_CHARS loses its middle: the last lines of a Java stack trace contain the root cause.
    """
    if len(text) > MAX_TEXT_CHARS:
        half = MAX_TEXT_CHARS // 2
        text = text[:half] + "\n… %d characters left out …\n" % (len(text) - 2 * half) + text[-half:]
    return _masked(_USER_INFO.sub("", text), secret_key)


def _masked(text: str, secret_key: Pattern[str]) -> str:
    """Mask secret values, also inside the values of other keys, such as `url=…?password=…`."""
    kept, at = [], 0
    found = _KEY.search(text)
    while found is not None:
        end = found.end()
        if found.group("is") and secret_key.search(found.group("key")[-MAX_KEY_CHARS:]):
            value = _VALUE.match(text, end)
            if value is not None:
                kept += [text[at:end], REDACTED]
                at = end = value.end()
        found = _KEY.search(text, end)
    return "".join(kept) + text[at:]
