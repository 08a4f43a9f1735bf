"""Errors of the agent.

AgentError
├── WireError              a line or a document is not what the wire format says (final)
├── TransportError         the server did not take a request; `retryable` says if trying again helps
│   └── TooLarge           the batch must be split (HTTP 413)
├── SpoolError             the disk queue cannot be used (retryable: the disk may recover)
└── CommandError           a command was not carried out; `code` is a word for programs
"""

from __future__ import annotations

from typing import Any


class AgentError(Exception):
    """Root of the agent's errors; `retryable` tells if the same call may succeed later."""

    retryable = False


class WireError(AgentError):
    """A line breaks the wire format; the message names the field and what it must be."""


class TransportError(AgentError):
    """The server refused or did not answer. `retry_after` is in seconds, if the server named one."""

    def __init__(self, message: str, *, retryable: bool = True, retry_after: float | None = None):
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after


class TooLarge(TransportError):
    """HTTP 413: the same events in two requests may pass."""


class SpoolError(AgentError):
    """The spool's directory cannot be written (full, read-only, gone)."""

    retryable = True


class CommandError(AgentError):
    """A command was not carried out.

    `code` is one of the words of `listeners.commands` (`needs_factory`, `wrong_query`, …);
    `refused` tells that nothing was changed; `evidence` is JSON-serialisable.
    """

    def __init__(
        self, code: str, message: str, *, refused: bool = False, evidence: dict[str, Any] | None = None
    ):
        super().__init__(message)
        self.code = code
        self.refused = refused
        self.evidence = dict(evidence or {}, code=code)
