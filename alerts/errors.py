"""Errors of the rule engine. Those of texts do not pass by trying again: somebody has to change a text.

AlertsError
├── MatcherError         a selector cannot be read; `column` (from 1) is where
│   └── PatternError     the regular expression in it cannot be taken; `column` counts within it
├── TemplateError        a text with `{{ … }}` cannot be read; `line` and `column` are where
├── DuplicateAlertError  a rule gives two alerts the same labels; it may be otherwise next time
├── ReceiverError        a message was not taken; `retryable` says whether trying again may help
└── PromQLError          see `alerts.promql.errors`
"""

from __future__ import annotations


class AlertsError(Exception):
    """Root of the errors of this package."""


class MatcherError(AlertsError):
    """A selector such as `{team="data"}` breaks its syntax."""

    def __init__(self, message: str, column: int):
        super().__init__(f"{message} (column {column})")
        self.column = column


class PatternError(MatcherError):
    """A regular expression breaks RE2's syntax, or asks for what we do not claim."""


class TemplateError(AlertsError):
    """A text with `{{ … }}` breaks the syntax of templates; `line` and `column` (from 1) are where."""

    def __init__(self, message: str, line: int, column: int):
        super().__init__(f"{message} (line {line}, column {column})")
        self.message, self.line, self.column = message, line, column


class DuplicateAlertError(AlertsError):
    """Two elements of a rule's answer get the same labels, so nobody could tell their alerts apart."""


class ReceiverError(AlertsError):
    """A receiver did not take a message. `retryable`: trying again may help. `status`: of HTTP, if any."""

    def __init__(self, message: str, retryable: bool, status: int | None = None):
        super().__init__(message)
        self.retryable, self.status = retryable, status
