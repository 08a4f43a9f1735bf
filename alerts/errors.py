"""Errors of the rule engine. Errors in a text are permanent: the text has to be changed.

AlertsError
├── MatcherError         a selector is invalid; `column` (from 1) is the place
│   └── PatternError     its regular expression is invalid; `column` counts within the expression
├── TemplateError        a template (`{{ … }}`) is invalid; `line` and `column` are the place
├── DuplicateAlertError  a rule gives two alerts the same labels; the next evaluation may differ
├── ReceiverError        a message was not delivered; `retryable`: a retry may succeed
└── PromQLError          see `alerts.promql.errors`
"""

from __future__ import annotations


class AlertsError(Exception):
    """Root of the errors of this package."""


class MatcherError(AlertsError):
    """Invalid syntax of a selector such as `{team="data"}`."""

    def __init__(self, message: str, column: int):
        super().__init__(f"{message} (column {column})")
        self.column = column


class PatternError(MatcherError):
    """A regular expression that RE2 rejects."""


class TemplateError(AlertsError):
    """Invalid template syntax at `line` and `column` (from 1)."""

    def __init__(self, message: str, line: int, column: int):
        super().__init__(f"{message} (line {line}, column {column})")
        self.message, self.line, self.column = message, line, column


class DuplicateAlertError(AlertsError):
    """Two elements of a rule's result have the same labels, so their alerts cannot be distinguished."""


class ReceiverError(AlertsError):
    """A receiver did not accept a message. `retryable`: a retry may succeed. `status`: HTTP status, if any.

    `retry_after`: seconds before which no retry succeeds, where the receiver states it.
    """

    def __init__(
        self, message: str, retryable: bool, status: int | None = None, retry_after: float | None = None
    ):
        super().__init__(message)
        self.retryable, self.status, self.retry_after = retryable, status, retry_after
