"""Findings of a shape comparison, one per change, and their joint verdict.

Rule names follow the groups of Spark's guide (`sources.count`, `aggregation.keys`, …).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class ShapeVerdict(StrEnum):
    """Whether the checkpoint allows a change; ordered from best to worst."""

    ALLOWED = "allowed"
    CONSEQUENCES = "consequences"
    NOT_ALLOWED = "not_allowed"


class ChangeEffect(StrEnum):
    """What Spark does with a change."""

    #: It runs, and neither state nor output is harmed.
    RUNS = "runs"
    #: It runs with the value in the checkpoint; the new value is not used.
    IGNORED = "ignored"
    #: It runs without an error, but results are wrong, lost or repeated, or the output becomes unreadable.
    HARMS = "harms"
    FAILS = "fails"
    #: The shapes do not hold enough to decide, or it depends on the data.
    UNKNOWN = "unknown"


class When(StrEnum):
    """When the effect shows. `LATER`: some batches after the restart, or for readers of the output."""

    START = "at start()"
    FIRST_BATCH = "in the first batch"
    LATER = "later"
    NEVER = "never"


@dataclass(frozen=True)
class ShapeFinding:
    """A change. `spark`: what Spark does; `condition`: its error condition, None on Spark 3 as a rule."""

    rule: str
    verdict: ShapeVerdict
    effect: ChangeEffect
    change: str
    spark: str
    remedy: str = ""
    condition: str | None = None
    when: When = When.NEVER


def verdict_of(findings: Sequence[ShapeFinding]) -> ShapeVerdict:
    """The worst verdict; ALLOWED without findings."""
    order = list(ShapeVerdict)
    return max((finding.verdict for finding in findings), key=order.index, default=ShapeVerdict.ALLOWED)


def effect_of(findings: Sequence[ShapeFinding]) -> ChangeEffect:
    """The worst effect, which a restart with all changes at once has."""
    order = [
        ChangeEffect.RUNS,
        ChangeEffect.IGNORED,
        ChangeEffect.UNKNOWN,
        ChangeEffect.HARMS,
        ChangeEffect.FAILS,
    ]
    return max((finding.effect for finding in findings), key=order.index, default=ChangeEffect.RUNS)


def sorted_by_weight(findings: Sequence[ShapeFinding]) -> list[ShapeFinding]:
    """The findings, worst verdict first."""
    order = list(ShapeVerdict)
    return sorted(findings, key=lambda finding: -order.index(finding.verdict))


def allowed(rule: str, change: str, spark: str, effect: ChangeEffect = ChangeEffect.RUNS) -> ShapeFinding:
    """An allowed change."""
    return ShapeFinding(rule, ShapeVerdict.ALLOWED, effect, change, spark)


def with_consequences(
    rule: str, effect: ChangeEffect, change: str, spark: str, remedy: str = ""
) -> ShapeFinding:
    """An allowed change with consequences."""
    when = When.LATER if effect in (ChangeEffect.HARMS, ChangeEffect.UNKNOWN) else When.NEVER
    return ShapeFinding(rule, ShapeVerdict.CONSEQUENCES, effect, change, spark, remedy, None, when)


def harmful(rule: str, change: str, spark: str, remedy: str) -> ShapeFinding:
    """A change that is not allowed although Spark accepts it."""
    return ShapeFinding(
        rule, ShapeVerdict.NOT_ALLOWED, ChangeEffect.HARMS, change, spark, remedy, None, When.LATER
    )


def fatal(
    rule: str,
    change: str,
    spark: str,
    remedy: str,
    condition: str | None = None,
    when: When = When.FIRST_BATCH,
) -> ShapeFinding:
    """A change that is not allowed and makes Spark fail."""
    return ShapeFinding(
        rule, ShapeVerdict.NOT_ALLOWED, ChangeEffect.FAILS, change, spark, remedy, condition, when
    )
