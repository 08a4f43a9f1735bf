"""Errors of the agent.

AgentError
├── WireError              a line or a document does not match the wire format (final)
├── TransportError         the server did not accept a request; `retryable`: a retry may succeed
│   ├── NoAnswer           the server cannot be reached, for any request
│   └── TooLarge           the batch must be split (HTTP 413)
├── SpoolError             the disk queue cannot be used (retryable: the disk may recover)
├── FilesError             Hadoop's file system returned an error; `gone`: the path does not exist
├── ConnectError           a Spark Connect server did not answer as expected (retryable)
│   ├── SessionGone        the session has ended for good (final)
│   └── RunUnknown         the server does not know this run of a query (final)
└── CommandError           a command was not executed; `code` identifies the reason
"""

from __future__ import annotations

from typing import Any


class AgentError(Exception):
    """Base class of the agent's errors; `retryable` is whether the same call may succeed later."""

    retryable = False


class WireError(AgentError):
    """A line does not match the wire format; the message names the field and what it must be."""


class TransportError(AgentError):
    """The server refused or did not answer. `retry_after` is in seconds, if the server sent it.

    `status`: the answer's HTTP status where it refused.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = True,
        retry_after: float | None = None,
        status: int | None = None,
    ):
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status


class NoAnswer(TransportError):
    """The server did not answer in time, or refused the connection: another request would wait in vain too."""


class TooLarge(TransportError):
    """HTTP 413: the same events may pass in two requests."""


class SpoolError(AgentError):
    """The spool's directory cannot be used (full, read-only, deleted)."""

    retryable = True


class FilesError(AgentError):
    """A file or folder could not be read through the driver; the message is Hadoop's, in one line."""

    retryable = True

    def __init__(self, message: str, *, gone: bool = False):
        super().__init__(message)
        self.gone = gone


class ConnectError(AgentError):
    """The Spark Connect server answered with an error or not in time; the message quotes it.

    `outage`: one of `listeners.protocol.wire.OUTAGE_CAUSES` where it did not answer at all, else None.
    """

    retryable = True

    def __init__(self, message: str, outage: str | None = None):
        super().__init__(message)
        self.outage = outage


class SessionGone(ConnectError):
    """The server does not know this session (it restarted, or the session was closed or expired)."""

    retryable = False


class RunUnknown(ConnectError):
    """The server does not know this run: it ended long ago, or before the server restarted."""

    retryable = False


class CommandError(AgentError):
    """A command was not executed.

    `code` is one of the codes in `listeners.commands.executor` (`needs_factory`, `wrong_query`, …). `refused`
    means that nothing was changed. `evidence` is JSON-serializable.
    """

    def __init__(
        self, code: str, message: str, *, refused: bool = False, evidence: dict[str, Any] | None = None
    ):
        super().__init__(message)
        self.code = code
        self.refused = refused
        self.evidence = dict(evidence or {}, code=code)
