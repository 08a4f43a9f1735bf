"""The lock of a running rewind, repair or undo: a `metadata` that names the backup instead of an id. Pure.

No Spark starts on it.
"""

from __future__ import annotations

from controlplane.checkpoints.inventory.model import Inventory

METADATA = "metadata"
LOCK = "rewind, repair or undo in progress; to restore the checkpoint: controlplane undo "


def locked_by(inventory: Inventory) -> str | None:
    """The backup of an interrupted rewind, repair or undo; None where there is none."""
    text = inventory.text(METADATA) or ""
    return text.removeprefix(LOCK).strip() if text.startswith(LOCK) else None


def is_lock(content: bytes) -> bool:
    """Whether a `metadata` file of this content is a lock."""
    return content.startswith(LOCK.encode())
