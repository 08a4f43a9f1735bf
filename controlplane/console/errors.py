"""Errors of the command line; `controlplane.cli.main` maps each to one line and an exit code.

ClickException (click's)
├── UsageProblem       exit 2   the user can correct it
│   ├── UnknownTrouble          `demo --only` names a trouble that does not exist
│   └── DataDirInUse            the demo directory is in use or was not made by the demo
└── ServerFailed       exit 1   the server failed; the user did nothing wrong
    └── DemoFailed              a part of the demonstration did not start
CallFailed                      one request failed; `client.click_error` turns it into one of the above
├── RequestRefused              the server answered with an error
└── Unreachable                 no response
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class UsageProblem(click.ClickException):
    """The user can correct it: one line, exit code 2."""

    exit_code = 2


class UnknownTrouble(UsageProblem):
    """No trouble has this name; the message lists the names."""


class DataDirInUse(UsageProblem):
    """The directory was not made by the demo, or another demo uses it."""


class ServerFailed(click.ClickException):
    """The server failed; the user did nothing wrong: exit code 1."""


class DemoFailed(ServerFailed):
    """A part of the demonstration did not start; the message names its log file."""


class CallFailed(Exception):
    """One request to the server failed."""


class RequestRefused(CallFailed):
    """The server answered with an error. `document` is the `error` object of its body."""

    def __init__(self, status: int, document: Mapping[str, Any]):
        super().__init__(str(document.get("message") or f"the server answered {status}"))
        self.status = status
        self.code = str(document.get("code") or "")
        detail = document.get("detail")
        self.detail: Mapping[str, Any] = detail if isinstance(detail, dict) else {}


class Unreachable(CallFailed):
    """No response; the server may have processed the request, unless it was not `connected`."""

    def __init__(self, message: str, connected: bool = True):
        super().__init__(message)
        self.connected = connected
