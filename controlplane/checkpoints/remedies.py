"""Commands that the doctor names as remedies, complete with the checkpoint, ready to copy. Pure."""

from __future__ import annotations

import shlex

from controlplane.checkpoints.reading.checkpoint import CheckpointView


def repair_command(view: CheckpointView, *options: str) -> str:
    """`controlplane repair` with these options. Names the file sink's output, if known."""
    return _command("repair", view, *options)


def rewind_command(view: CheckpointView, batch: int | None = None) -> str:
    """`controlplane rewind` to a batch; without one, with --list. Names the file sink's output, if known."""
    return _command("rewind", view, *(["--list"] if batch is None else ["--resume-at", str(batch)]))


def _command(name: str, view: CheckpointView, *options: str) -> str:
    output = (
        ["--output", view.output.root]
        if view.output is not None and view.sink and view.sink.newest is not None
        else []
    )
    # The output comes first, so that the first line of a wrapped command is not a complete command.
    return shlex.join(["controlplane", name, *output, view.inventory.root, *options])
