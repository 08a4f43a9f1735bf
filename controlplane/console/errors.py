"""Errors of the command line. `controlplane.cli.main` maps each to one line and an exit code, in one place.

ClickException (click's)
├── Mistake            exit 2   something the user can put right
│   ├── UnknownTrouble          `demo --only` names one that is not there
│   └── FolderInUse             the demonstration's folder is not ours, or taken
└── ServerFailed       exit 1   the server could not do it; nothing the user did wrong
    └── DemoFailed              a part of the demonstration did not start
CallFailed                      of one call of the server; `client.mistake_of` makes one of the above of it
├── Refused                     the server said no
└── Unreachable                 no answer came
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class UsageProblem(click.ClickException):
    """Something the user can put right; one line, exit 2."""

    exit_code = 2


class UnknownTrouble(UsageProblem):
    """A name that no trouble has; the message lists those there are."""


class DataDirInUse(UsageProblem):
    """The folder is not ours to wipe, or another demonstration works in it."""


class ServerFailed(click.ClickException):
    """The server could not do it; nothing the user did wrong, so exit 1."""


class DemoFailed(ServerFailed):
    """A part of the demonstration did not start; the message names its log file."""


class CallFailed(Exception):
    """One call of the server failed."""


class RequestRefused(CallFailed):
    """The server said no. `document` is its `error` object."""

    def __init__(self, status: int, document: Mapping[str, Any]):
        super().__init__(str(document.get("message") or f"the server answered {status}"))
        self.status = status
        self.code = str(document.get("code") or "")
        detail = document.get("detail")
        self.detail: Mapping[str, Any] = detail if isinstance(detail, dict) else {}


class Unreachable(CallFailed):
    """No answer came; the request may or may not have been carried out."""
