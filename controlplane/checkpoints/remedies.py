"""Commands that the doctor names as remedies, with the checkpoint filled in, ready to be copied. Pure."""

from __future__ import annotations

import shlex

from controlplane.checkpoints.reading.checkpoint import CheckpointView


def repair_command(view: CheckpointView, *options: str) -> str:
    return _command("repair", view, *options)


def rewind_command(view: CheckpointView, batch: int | None = None) -> str:
    """To one batch, or, without one, the question how far back is possible. With the file sink's output, if given."""
    return _command("rewind", view, *(["--list"] if batch is None else ["--resume-at", str(batch)]))


def _command(name: str, view: CheckpointView, *options: str) -> str:
    output = (
        ["--output", view.output.root]
        if view.output is not None and view.sink and view.sink.newest is not None
        else []
    )
    # The output comes first: half of a command, copied from a line that was broken, must not be a command.
    return shlex.join(["controlplane", name, *output, view.inventory.root, *options])
