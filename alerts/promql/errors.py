"""PromQL errors, with line and column (from 1) in the expression.

PromQLError              `message` without the place, `line`, `column`
├── ParseError           invalid syntax or types
├── EvaluationError      not computable from these series (matching, duplicate label sets)
└── LimitError           over a limit; a smaller query may succeed

OperationError           raised without a place; the evaluator converts it into one of the above
└── LimitExceeded
"""

from __future__ import annotations

from alerts.errors import AlertsError


class PromQLError(AlertsError):
    """An expression cannot be parsed or evaluated."""

    def __init__(self, message: str, line: int, column: int):
        super().__init__(f"{line}:{column}: {message}")
        self.message, self.line, self.column = message, line, column


class ParseError(PromQLError):
    """Invalid PromQL."""


class EvaluationError(PromQLError):
    """Valid PromQL that cannot be evaluated on these series."""


class LimitError(PromQLError):
    """The evaluation exceeds a limit."""


class OperationError(Exception):
    """An operation has no result."""


class LimitExceeded(OperationError):
    """An operation exceeds a limit."""
