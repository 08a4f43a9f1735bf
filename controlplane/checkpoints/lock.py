"""The lock of a running rewind, repair or undo: a `metadata` that names the backup instead of an id. Pure.

No Spark starts on it.
"""

from __future__ import annotations

from controlplane.checkpoints.inventory.model import Inventory

METADATA = "metadata"
LOCK = "rewind, repair or undo in progress; to restore the checkpoint: controlplane undo "
#: The text of earlier builds, whose interrupted repairs must stay recognizable.
_FORMER_LOCK = "surgery under way, put it back with: controlplane undo "
LOCKS = (LOCK, _FORMER_LOCK)


def locked_by(inventory: Inventory) -> str | None:
    """The backup of an interrupted rewind, repair or undo; None where there is none."""
    text = inventory.text(METADATA) or ""
    return next((text.removeprefix(lock).strip() for lock in LOCKS if text.startswith(lock)), None)


def is_lock(content: bytes) -> bool:
    """Whether a `metadata` file of this content is a lock."""
    return content.startswith(tuple(lock.encode() for lock in LOCKS))
