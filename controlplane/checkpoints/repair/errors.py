"""Errors of surgery. The command line prints each in one line; nothing of the checkpoint was changed unless said.

SurgeryError
├── Impossible       this rewind, repair or undo cannot work; the message names the file or version that is lacking
├── InUse            somebody writes here, or may: the message names the sign
├── Unfinished       an earlier surgery stopped in the middle; `backup` is what heals it
├── NotABackup       the folder holds no backup of ours
├── Moved            the checkpoint is no longer as the surgery left it
└── Stopped          it failed after the first change; `backup` puts everything back
"""

from __future__ import annotations

import shlex


class RepairError(Exception):
    """Root of the errors of surgery."""


class Impossible(RepairError):
    """This cannot work; the message says what is lacking."""


class InUse(RepairError):
    """Somebody writes to this checkpoint, or is about to."""


class RepairUnfinished(RepairError):
    """An earlier surgery stopped in the middle; `backup` is where its backup is."""

    def __init__(self, backup: str):
        super().__init__(
            f"an earlier surgery stopped in the middle; put it back first: controlplane undo {shlex.quote(backup)}"
        )
        self.backup = backup


class NotABackup(RepairError):
    """The folder holds no backup, or one that cannot be read."""


class CheckpointChanged(RepairError):
    """Files are not as the surgery left them; the message names them."""


class RepairInterrupted(RepairError):
    """It failed after the first change."""

    def __init__(self, why: str, backup: str):
        super().__init__(
            f"stopped in the middle: {why}; put it back with: controlplane undo {shlex.quote(backup)}"
        )
        self.backup = backup
