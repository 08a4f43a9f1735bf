"""Errors of expressions, each with the line and column (from 1) of the text that is to blame.

PromQLError              `message` without the place, `line`, `column`
├── ParseError           the text is no PromQL, or its types do not fit
├── EvaluationError      the series do not allow what the expression asks for (matching, duplicates)
└── LimitError           it would cost too much; a smaller question may pass

Unanswerable             from the parts that do not know the text; the evaluator turns it into the above
└── TooCostly
"""

from __future__ import annotations

from alerts.errors import AlertsError


class PromQLError(AlertsError):
    """An expression cannot be read or evaluated."""

    def __init__(self, message: str, line: int, column: int):
        super().__init__(f"{line}:{column}: {message}")
        self.message, self.line, self.column = message, line, column


class ParseError(PromQLError):
    """Not PromQL."""


class EvaluationError(PromQLError):
    """PromQL, but not answerable from these series."""


class LimitError(PromQLError):
    """Answerable, but at a cost above the limits."""


class OperationError(Exception):
    """The operation at hand has no answer."""


class LimitExceeded(OperationError):
    """The operation at hand goes over a limit."""
