"""Plans, offers and chances of surgery as text for a terminal. Pure."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from controlplane.checkpoints.findings import ReportStatus, plural
from controlplane.checkpoints.repair.repair_plan import Diagnosis, RepairOffer
from controlplane.checkpoints.repair.rewind_plan import RewindTarget
from controlplane.checkpoints.repair.steps import OUTPUT, Prune, Remove, RepairPlan, Step
from controlplane.console.tables import plain

WIDTH = 100
#: Files of one folder that are named; more are counted.
MAX_NAMED = 6


def plan_lines(plan: RepairPlan) -> list[str]:
    """What will be done, then what comes of it."""
    return [
        f"PLAN  {plain(plan.title)}",
        *_steps(plan.steps),
        "",
        "What comes of it:",
        *(line for text in plan.consequences for line in _wrapped(text, "    ", "  - ")),
    ]


def _steps(steps: Sequence[Step]) -> Iterator[str]:
    """A line for each folder: what goes out of it, what is written."""
    shown = [step for step in steps if not (_is_hidden(step.path) or isinstance(step, Prune))]
    for (place, folder, gone), group in groupby(shown, key=_group):
        names = [step.path.rpartition("/")[2] for step in group]
        what = "take out of" if gone else "write into"
        where = f"{'the output' if place == OUTPUT else 'the checkpoint'}, {folder or 'its root'}"
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        yield from _wrapped(f"{what} {where}: {', '.join(names[:MAX_NAMED])}{more}", "      ", "  ")
    side = sum(_is_hidden(step.path) for step in steps)
    if side:
        yield f"  and {plural(side, 'checksum file')} beside them"


def _is_hidden(path: str) -> bool:
    return path.endswith(".crc")


def _group(step: Step) -> tuple[str, str, bool]:
    return step.place, step.path.rpartition("/")[0], isinstance(step, Remove)


def diagnosis_lines(
    found: Diagnosis, verdict: ReportStatus, checkpoint: str, options: Sequence[str] = ()
) -> list[str]:
    """Repairs that will be done, those that wait, and what is left to people. `options`: what a rewind needs too."""
    lines = [] if found.plan is None else plan_lines(found.plan)
    for offer in found.offers:
        lines += ["", *_offer(offer)]
    for finding in found.unresolved:
        lines += ["", *_wrapped(f"{finding.check}: {finding.message}", "      ", "  By hand: ")]
        for number, step in enumerate(finding.remedy, 1):
            lines += _wrapped(step, "      ", f"    {number}. ")
    if found.rewind_to is not None:
        way = shlex.join(
            ["controlplane", "rewind", checkpoint, "--resume-at", str(found.rewind_to), *options]
        )
        # On one line: the half of a command that is copied must not be a command.
        lines += ["", "  Or go back, which leaves the damage behind:", f"    {plain(way)}"]
        lines += [] if "--output" in options else ["    with --output PATH, if the query writes files"]
    if not lines:
        return [f"nothing to repair: the doctor calls this checkpoint {verdict}"]
    return lines if lines[0] else lines[1:]


def _offer(offer: RepairOffer) -> Iterator[str]:
    if not offer.steps:
        yield from _wrapped(f"{offer.id} not possible: {offer.title}", "      ", "  ")
        yield from _wrapped(offer.blocked, "      ", "    - ")
        return
    yield from _wrapped(f"{offer.id} waits for --confirm {offer.id}: {offer.title}", "      ", "  ")
    for text in offer.consequences:
        yield from _wrapped(text, "      ", "    - ")


def rewind_target_lines(chances: Sequence[RewindTarget], next_batch: int | None) -> list[str]:
    """Runs of batches that are possible, and runs that are not, with the reason."""
    if not chances:
        return ["there is no batch to go back to: the query begins at batch 0"]
    lines = [f"batch {next_batch} runs next; --resume-at can be:"]
    for reason, group in groupby(chances, key=lambda chance: chance.reason):
        lines += _wrapped(_range([c.batch for c in group], reason), "        ", "  ")
    return lines


def _range(batches: Sequence[int], reason: str | None) -> str:
    named = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in _runs(batches))
    return f"{named}: yes" if reason is None else f"{named}: no, {reason}"


def _runs(batches: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each run without a gap; the batches fall."""
    runs: list[tuple[int, int]] = []
    for batch in batches:
        if runs and runs[-1][1] == batch + 1:
            runs[-1] = (runs[-1][0], batch)
        else:
            runs.append((batch, batch))
    return runs


def _wrapped(text: str, indent: str, first: str) -> list[str]:
    return textwrap.wrap(
        plain(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
