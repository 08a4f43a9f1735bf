"""The comparison of two shapes: the list of checks, each a function from both shapes to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from controlplane.shapes import inputs, outputs, settings, state
from controlplane.shapes.findings import ShapeFinding, sorted_by_weight
from controlplane.shapes.model import Shape

Check = Callable[[Shape, Shape], Iterator[ShapeFinding]]

CHECKS: tuple[Check, ...] = (
    inputs.compare_sources,
    state.compare_operators,
    outputs.compare_sink,
    outputs.compare_output_mode,
    outputs.compare_projection,
    outputs.compare_filters,
    settings.compare_watermarks,
    settings.compare_settings,
    settings.compare_trigger,
    settings.compare_progress_tracking,
    settings.compare_versions,
    settings.compare_names,
    settings.compare_completeness,
)


def compare_shapes(old: Shape, new: Shape) -> list[ShapeFinding]:
    """List the changes between the run that wrote a checkpoint and the one that will restart from it, worst first.

    An empty list means that no part of the shape has changed. User functions, the state variables of a
    stateful processor and the data are not part of a shape.
    """
    return sorted_by_weight([finding for check in CHECKS for finding in check(old, new)])
