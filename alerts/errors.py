"""Errors of the rule engine. None of them passes by trying again: somebody has to change a text.

AlertsError
└── MatcherError       a selector cannot be read; `column` (from 1) is where
    └── PatternError   the regular expression in it cannot be taken; `column` counts within it
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
