"""Errors of the agent.

AgentError
├── WireError              a line or a document is not what the wire format says (final)
├── TransportError         the server did not take a request; `retryable` says if trying again helps
│   └── TooLarge           the batch must be split (HTTP 413)
├── SpoolError             the disk queue cannot be used (retryable: the disk may recover)
├── FilesError             Hadoop's file system did not give what was asked; `gone`: there is nothing there
├── ConnectError           a Spark Connect server did not answer as it should (retryable)
│   ├── SessionGone        that session is over for good (final)
│   └── RunUnknown         it remembers no such run of a query (final)
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


class FilesError(AgentError):
    """A file or folder could not be read by way of the driver; the message is Hadoop's, in one line."""

    retryable = True

    def __init__(self, message: str, *, gone: bool = False):
        super().__init__(message)
        self.gone = gone


class ConnectError(AgentError):
    """The Spark Connect server did not answer in time, or with an error; the message quotes it."""

    retryable = True


class SessionGone(ConnectError):
    """The server knows this session no more (it restarted, or the session was closed or expired)."""

    retryable = False


class RunUnknown(ConnectError):
    """The server knows no such run: it ended long ago, or in a life of the server before this one."""

    retryable = False


class CommandError(AgentError):
    """A command was not carried out.

    `code` is one of the words of `listeners.commands.executor` (`needs_factory`, `wrong_query`, …);
    `refused` tells that nothing was changed; `evidence` is JSON-serialisable.
    """

    def __init__(
        self, code: str, message: str, *, refused: bool = False, evidence: dict[str, Any] | None = None
    ):
        super().__init__(message)
        self.code = code
        self.refused = refused
        self.evidence = dict(evidence or {}, code=code)
