"""Repair plans, repair offers and rewind targets as text for a terminal. Pure."""

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
#: Files of one folder that are named; the others are counted.
MAX_NAMED = 6


def plan_lines(plan: RepairPlan) -> list[str]:
    """The steps of a plan, then its consequences."""
    return [
        f"PLAN  {plain(plan.title)}",
        *_steps(plan.steps),
        "",
        "Consequences:",
        *(line for text in plan.consequences for line in _wrapped(text, "    ", "  - ")),
    ]


def _steps(steps: Sequence[Step]) -> Iterator[str]:
    """One entry per folder: the files to remove, the files to write."""
    shown = [step for step in steps if not (_is_hidden(step.path) or isinstance(step, Prune))]
    for (place, folder, gone), group in groupby(shown, key=_group):
        names = [step.path.rpartition("/")[2] for step in group]
        what = "remove from" if gone else "write into"
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
    """The selected repairs, the other offers, and the findings to fix by hand.

    `options`: the options that a suggested rewind needs too.
    """
    lines = [] if found.plan is None else plan_lines(found.plan)
    for offer in found.offers:
        lines += ["", *_offer(offer)]
    for finding in found.unresolved:
        lines += ["", *_wrapped(f"{finding.check}: {finding.message}", "      ", "  By hand: ")]
        for number, step in enumerate(finding.remedy, 1):
            lines += _wrapped(step, "      ", f"    {number}. ")
    if found.rewind_to is not None:
        command = shlex.join(
            ["controlplane", "rewind", checkpoint, "--resume-at", str(found.rewind_to), *options]
        )
        # On one line, so that a copied part of it is not a complete command.
        lines += ["", "  Or rewind to before the damage:", f"    {plain(command)}"]
        lines += [] if "--output" in options else ["    add --output PATH if the query writes files"]
    if not lines:
        return [f"Nothing to repair: this checkpoint is {verdict}."]
    return lines if lines[0] else lines[1:]


def _offer(offer: RepairOffer) -> Iterator[str]:
    if not offer.steps:
        yield from _wrapped(f"{offer.id} not possible: {offer.title}", "      ", "  ")
        yield from _wrapped(offer.blocked, "      ", "    - ")
        return
    yield from _wrapped(f"{offer.id} needs --confirm {offer.id}: {offer.title}", "      ", "  ")
    for text in offer.consequences:
        yield from _wrapped(text, "      ", "    - ")


def rewind_target_lines(targets: Sequence[RewindTarget], next_batch: int | None) -> list[str]:
    """Ranges of possible batches, and of impossible ones with the reason."""
    if not targets:
        return ["There is no earlier batch: the query starts at batch 0."]
    lines = [f"Batch {next_batch} runs next. Possible values of --resume-at:"]
    for reason, group in groupby(targets, key=lambda target: target.reason):
        lines += _wrapped(_range([target.batch for target in group], reason), "        ", "  ")
    return lines


def _range(batches: Sequence[int], reason: str | None) -> str:
    named = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in _runs(batches))
    return f"{named}: yes" if reason is None else f"{named}: no, {reason}"


def _runs(batches: Sequence[int]) -> list[tuple[int, int]]:
    """(first, last) of each range without a gap, from descending batches."""
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
