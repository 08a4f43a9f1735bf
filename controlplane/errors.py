"""Errors of the server. `controlplane.api.app` maps each to one HTTP answer, in one place.

ControlPlaneError            code, status (HTTP), detail; the message is for people
├── BadRequest    400        the request says something impossible; the message names what to change
├── Unauthorized  401        no token, or one we do not know
├── Forbidden     403        the token's role does not allow this
├── NotFound      404
├── Conflict      409        it cannot be done in the present state (another action runs, …)
├── BodyTooLarge  413        split it and send again
├── StoreUnavailable 503     the store cannot take it now (disk full, locked); try again later
├── LakeError     503        the lake cannot be read or written as it is; the message names what to change
└── SettingsError            a mistake in the configuration; the CLI prints it and ends with 2
"""

from __future__ import annotations

from typing import Any


class ControlPlaneError(Exception):
    """Root of the server's errors. `retry_after` is in seconds, where waiting helps."""

    status = 500
    code = "internal"
    retry_after: float | None = None

    def __init__(self, message: str, *, code: str | None = None, detail: dict[str, Any] | None = None):
        super().__init__(message)
        self.code = code or type(self).code
        self.detail = detail or {}


class BadRequest(ControlPlaneError):
    status, code = 400, "bad_request"


class Unauthorized(ControlPlaneError):
    status, code = 401, "unauthorized"


class Forbidden(ControlPlaneError):
    status, code = 403, "forbidden"


class NotFound(ControlPlaneError):
    status, code = 404, "not_found"


class Conflict(ControlPlaneError):
    status, code = 409, "conflict"


class BodyTooLarge(ControlPlaneError):
    status, code = 413, "body_too_large"


class StoreUnavailable(ControlPlaneError):
    status, code = 503, "store_unavailable"
    retry_after = 5.0


class LakeError(ControlPlaneError):
    status, code = 503, "lake"


class SettingsError(ControlPlaneError):
    status, code = 500, "settings"
