"""The comparison of two shapes: the list of checks, each a small function, and what it comes to.

`compare(old, new)` is all that others call.
"""

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
    """Every change between the run that wrote a checkpoint and the one that is to go on from it, worst first.

    No finding: nothing that a shape tells has changed. What a shape cannot tell (code of user functions,
    the state variables of a stateful processor, data) is not judged.
    """
    return sorted_by_weight([finding for check in CHECKS for finding in check(old, new)])
