"""Errors of the server. `controlplane.api.app` maps each class to one HTTP response.

ControlPlaneError            code, status (HTTP), detail; the message is for people
├── BadRequest    400        the request is invalid; the message names what to change
├── Unauthorized  401        the token is missing or unknown
├── Forbidden     403        the token's role does not allow this
├── NotFound      404
├── Conflict      409        not possible in the current state (another action runs, …)
├── BodyTooLarge  413        the client must split the body and send it again
├── TooManyEvents 429        the app sends faster than its quota; send the events later
├── StoreUnavailable 503     the store cannot be written now (disk full, locked); retry later
│   └── LeaseLost            another server has become active
├── NotActive     503        this server is the standby; `detail["active"]` is the address of the active one
├── LakeError     503        the lake cannot be read or written; the message names what to change
└── SettingsError            the configuration is invalid; the CLI prints the message and exits with 2
"""

from __future__ import annotations

from typing import Any


class ControlPlaneError(Exception):
    """Base class of the server's errors. `retry_after`: seconds, where waiting helps."""

    status = 500
    code = "internal"
    retry_after: float | None = None

    def __init__(self, message: str, *, code: str | None = None, detail: dict[str, Any] | None = None):
        super().__init__(message)
        self.code = code or type(self).code
        self.detail = detail or {}


class BadRequest(ControlPlaneError):
    """The request is invalid."""

    status, code = 400, "bad_request"


class Unauthorized(ControlPlaneError):
    """The token is missing or unknown."""

    status, code = 401, "unauthorized"


class Forbidden(ControlPlaneError):
    """The token's role does not allow this."""

    status, code = 403, "forbidden"


class NotFound(ControlPlaneError):
    """The object does not exist."""

    status, code = 404, "not_found"


class Conflict(ControlPlaneError):
    """The request is not possible in the current state."""

    status, code = 409, "conflict"


class BodyTooLarge(ControlPlaneError):
    """The request body exceeds the limit."""

    status, code = 413, "body_too_large"


class TooManyEvents(ControlPlaneError):
    """The app sends events faster than its quota allows."""

    status, code = 429, "too_many_events"
    retry_after = 5.0


class StoreUnavailable(ControlPlaneError):
    """The store cannot be read or written now."""

    status, code = 503, "store_unavailable"
    retry_after = 5.0

    @property
    def reason(self) -> str:
        """What everybody may read: the messages of databases may name hosts and users."""
        return "the store does not accept writes; see the server log"


class StoreDamaged(StoreUnavailable):
    """The store's file or its disk is damaged: nothing is written to it until it is repaired or restored."""

    @property
    def reason(self) -> str:
        """The message itself, which is the server's own."""
        return str(self)


class LeaseLost(StoreUnavailable):
    """Another server has become active, so this one must not write."""

    code = "lease_lost"
    retry_after = 1.0


class NotActive(ControlPlaneError):
    """This server is the standby; the active one takes the request."""

    status, code = 503, "standby"
    retry_after = 1.0


class LakeError(ControlPlaneError):
    """The lake cannot be read or written."""

    status, code = 503, "lake"


class SettingsError(ControlPlaneError):
    """The configuration is invalid."""

    status, code = 500, "settings"
