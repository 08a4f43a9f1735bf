"""The mark of surgery under way: a `metadata` that names a backup instead of an id. No Spark starts on it. Pure."""

from __future__ import annotations

from controlplane.checkpoints.inventory.model import Inventory

METADATA = "metadata"
LOCK = "surgery under way, put it back with: controlplane undo "


def locked_by(inventory: Inventory) -> str | None:
    """The backup of a surgery that stopped in the middle; None where there is none."""
    text = inventory.text(METADATA) or ""
    return text.removeprefix(LOCK).strip() if text.startswith(LOCK) else None
