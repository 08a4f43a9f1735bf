"""What must not leave the driver: values behind secret-looking keys, and the users and passwords of URLs.

The keys are those of `spark.redaction.regex`, as Spark uses it for its own logs and pages.
"""

from __future__ import annotations

import re
from re import Pattern

#: Spark's own default (core/internal/config, 4.3).
DEFAULT_REGEX = "(?i)secret|password|token|access[.]?key"
REDACTED = "*********(redacted)"
MAX_TEXT_CHARS = 32_000

#: Of a longer key its end counts.
MAX_KEY_CHARS = 200

# Each reads a text once, however it is made: a word is never tried again from its middle.
_KEY = re.compile(r"""(?P<key>[\w.\-]+)(?P<is>(?:\\*["'])?\s*[=:]\s*)?""")
_VALUE = re.compile(
    r""""[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|\\+"[^"]*"|\\+'[^']*'|[^\s,;&)}\]]+""", re.DOTALL
)
#: `user:password@`; `container@account` is a place, `host:8020/` is one too, and S3's keys may hold a slash.
_USER_INFO = re.compile(r"(?<=://)[^/\s?#@:]*:(?:[^/\s?#]*@|(?!\d+/)[^\s?#@]{0,200}@)")


def compiled(regex: str | None) -> Pattern[str]:
    """The session's `spark.redaction.regex`; Spark's default where it is absent or not for Python."""
    try:
        return re.compile(regex or DEFAULT_REGEX)
    except re.error:
        return re.compile(DEFAULT_REGEX)


def redact(text: str, secret_key: Pattern[str]) -> str:
    """`key=value` and `key: value` with a secret key lose the value, `scheme://user:password@` its user; an
    overlong text keeps its two ends.

    The last lines of a Java stack trace hold the root cause, so the middle is what goes.
    """
    if len(text) > MAX_TEXT_CHARS:
        half = MAX_TEXT_CHARS // 2
        text = text[:half] + "\n… %d characters left out …\n" % (len(text) - 2 * half) + text[-half:]
    return _masked(_USER_INFO.sub("", text), secret_key)


def _masked(text: str, secret_key: Pattern[str]) -> str:
    """The value of a harmless key is read for pairs of its own: `url=…?password=…`."""
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
