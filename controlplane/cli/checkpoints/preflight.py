"""`controlplane preflight --old SHAPE --new SHAPE`: check whether a changed query can restart from its checkpoint.

Needs no server: two files, and an exit code for a deploy pipeline.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from controlplane.cli.options import json_option
from controlplane.console.tables import plain
from controlplane.shapes.comparison import compare_shapes
from controlplane.shapes.findings import ChangeEffect, ShapeFinding, ShapeVerdict, effect_of, verdict_of
from controlplane.shapes.model import Shape, ShapeError, shape_from

#: 2 is a usage error, as in every command.
UNREADABLE = 3
EXIT_CODES = {ShapeVerdict.ALLOWED: 0, ShapeVerdict.CONSEQUENCES: 1, ShapeVerdict.NOT_ALLOWED: 4}
VERDICT_LABELS = {
    ShapeVerdict.ALLOWED: "allowed",
    ShapeVerdict.CONSEQUENCES: "allowed with consequences",
    ShapeVerdict.NOT_ALLOWED: "not allowed",
}
EFFECT_LABELS = {
    ChangeEffect.RUNS: "runs",
    ChangeEffect.IGNORED: "runs, with the old value",
    ChangeEffect.HARMS: "runs, with wrong results or unreadable output",
    ChangeEffect.FAILS: "fails",
    ChangeEffect.UNKNOWN: "not certain",
}


class UnreadableShape(click.ClickException):
    """A file that does not exist or holds no shape."""

    exit_code = UNREADABLE


@click.command(short_help="Check whether a changed query can restart from its checkpoint.")
@click.option("--old", type=click.Path(path_type=Path), required=True, help="Shape of the last run.")
@click.option("--new", type=click.Path(path_type=Path), required=True, help="Shape of the changed query.")
@json_option
def preflight(old: Path, new: Path, as_json: bool) -> int:
    """Compare two shapes of a query, as the agent sends them with a run's first status (`facts.shape`).

    Lists each change with its rule, what Spark does with it, and what to do.

    Exit codes: 0 allowed, 1 allowed with consequences, 4 not allowed, 3 a file cannot be read or holds no
    shape; 2, as in every command, is a usage error.
    """
    findings = compare_shapes(read(old), read(new))
    verdict = verdict_of(findings)
    click.echo(
        json.dumps(document_of(findings), indent=2) if as_json else "\n".join(comparison_lines(findings))
    )
    return EXIT_CODES[verdict]


def read(file: Path) -> Shape:
    """Read a shape from a file. Raises UnreadableShape."""
    try:
        return shape_from(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise UnreadableShape(f"cannot read {file}: {error.strerror or error}") from None
    except ShapeError as error:
        raise UnreadableShape(f"{file} holds no shape: {plain(str(error))}") from None
    except (ValueError, RecursionError):  # text that is not UTF-8 is not JSON either
        raise UnreadableShape(f"{file} holds no shape: it is not JSON") from None


def document_of(findings: list[ShapeFinding]) -> dict[str, object]:
    """The document that `preflight --json` prints."""
    return {
        "verdict": verdict_of(findings),
        "effect": effect_of(findings),
        "findings": [asdict(finding) for finding in findings],
    }


def comparison_lines(findings: list[ShapeFinding]) -> list[str]:
    """The verdict, then each finding: the change, what Spark does, what to do."""
    count = f"{len(findings)} change{'s' * (len(findings) != 1)}" if findings else "no changes"
    lines = [f"{VERDICT_LABELS[verdict_of(findings)]}: {count}"]
    for finding in findings:
        lines.append(f"{VERDICT_LABELS[finding.verdict]}  {finding.rule}  {plain(finding.change)}")
        lines.append(f"    Spark: {_effect_text(finding)}. {finding.spark}")
        if finding.remedy:
            lines.append(f"    Do: {finding.remedy}")
    return lines


def _effect_text(finding: ShapeFinding) -> str:
    if finding.effect is not ChangeEffect.FAILS:
        return EFFECT_LABELS[finding.effect]
    return f"fails {finding.when}{f' with {finding.condition}' if finding.condition else ''}"
