"""Errors of rewind, repair and undo. Unless stated, nothing was changed. The command line prints each in one line.

RepairError
├── Impossible           the change cannot work; the message names the missing file or version
├── InUse                the query or another writer is active; the message names the sign
├── RepairUnfinished     an earlier change was interrupted; undoing `backup` restores the checkpoint
├── NotABackup           the folder is not a backup, or the backup is damaged
├── CheckpointChanged    the checkpoint has changed since the repair
└── RepairInterrupted    the change failed after its first step; undoing `backup` restores everything
"""

from __future__ import annotations

import shlex


class RepairError(Exception):
    """Base of the errors of rewind, repair and undo."""


class Impossible(RepairError):
    """The change cannot work; the message names what is missing."""


class InUse(RepairError):
    """The query or another writer uses this checkpoint, or is about to."""


class RepairUnfinished(RepairError):
    """An earlier change was interrupted; `backup`: path of its backup."""

    def __init__(self, backup: str):
        super().__init__(
            f"an earlier rewind, repair or undo was interrupted; undo it first: controlplane undo {shlex.quote(backup)}"
        )
        self.backup = backup


class NotABackup(RepairError):
    """The folder holds no backup, or one that is damaged."""


class CheckpointChanged(RepairError):
    """Files have changed since the repair; the message names them."""


class RepairInterrupted(RepairError):
    """The change failed after its first step; `backup`: path of the backup."""

    def __init__(self, why: str, backup: str):
        super().__init__(
            f"interrupted: {why}; restore the checkpoint with: controlplane undo {shlex.quote(backup)}"
        )
        self.backup = backup
