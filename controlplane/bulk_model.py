"""A bulk action: one action on many queries, a few at a time.

Part of the server's domain model (`controlplane.model`), with the same conventions. The store keeps these values,
`controlplane.supervision.bulk_actions` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_QUERIES = 500
MAX_PARALLEL = 50


class BulkState(StrEnum):
    """`halted`: an action failed, so the queries that were left are not acted on."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    HALTED = "halted"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class BulkAction:
    """`action` on these queries in this order, at most `max_parallel` at once. Its actions have the key `key`.

    `actor`: the person; `via`: the token's name; `reason`: the person's; `why`: of the state.
    `halt_on_failure`: no further query is acted on after the first action that does not succeed.
    """

    id: str
    action: str
    query_ids: tuple[str, ...]
    actor: str
    via: str
    reason: str
    requested_at: float
    drain: bool = False
    max_parallel: int = 1
    halt_on_failure: bool = True
    state: BulkState = BulkState.RUNNING
    ended_at: float | None = None
    why: str = ""

    @property
    def key(self) -> str:
        """The Idempotency-Key of its actions: each query gets one, whatever server requests it."""
        return f"bulk-action-{self.id}"
