"""What the comparison of two shapes says: one finding a change, each with its rule, and the verdict of all.

A rule is named as Spark's guide groups them (`sources.count`, `aggregation.keys`, …).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class ShapeVerdict(StrEnum):
    """May this change be made on the checkpoint? In the order of how bad it is."""

    ALLOWED = "allowed"
    CONSEQUENCES = "consequences"
    NOT_ALLOWED = "not_allowed"


class ChangeEffect(StrEnum):
    """What Spark does with it."""

    #: It runs, and nothing that was written or remembered suffers.
    RUNS = "runs"
    #: It runs, and the new value is not used: the checkpoint's stands over it.
    IGNORED = "ignored"
    #: It runs without a word, and results are wrong, lost or repeated, or output can no longer be read.
    HARMS = "harms"
    FAILS = "fails"
    #: The shapes do not tell enough, or it depends on data.
    UNKNOWN = "unknown"


class When(StrEnum):
    """When it shows. `LATER`: some batches after the restart, or to those who read the output."""

    START = "at start()"
    FIRST_BATCH = "in the first batch"
    LATER = "later"
    NEVER = "never"


@dataclass(frozen=True)
class ShapeFinding:
    """One change. `condition` is Spark's error condition where it fails with one; None on Spark 3 as a rule."""

    rule: str
    verdict: ShapeVerdict
    effect: ChangeEffect
    change: str
    spark: str
    remedy: str = ""
    condition: str | None = None
    when: When = When.NEVER


def verdict_of(findings: Sequence[ShapeFinding]) -> ShapeVerdict:
    """The worst of all; no finding is allowed."""
    order = list(ShapeVerdict)
    return max((finding.verdict for finding in findings), key=order.index, default=ShapeVerdict.ALLOWED)


def effect_of(findings: Sequence[ShapeFinding]) -> ChangeEffect:
    """What a restart comes to when all changes are made at once: the worst effect."""
    order = [
        ChangeEffect.RUNS,
        ChangeEffect.IGNORED,
        ChangeEffect.UNKNOWN,
        ChangeEffect.HARMS,
        ChangeEffect.FAILS,
    ]
    return max((finding.effect for finding in findings), key=order.index, default=ChangeEffect.RUNS)


def sorted_by_weight(findings: Sequence[ShapeFinding]) -> list[ShapeFinding]:
    """The worst first."""
    order = list(ShapeVerdict)
    return sorted(findings, key=lambda finding: -order.index(finding.verdict))


def allowed(rule: str, change: str, spark: str, effect: ChangeEffect = ChangeEffect.RUNS) -> ShapeFinding:
    return ShapeFinding(rule, ShapeVerdict.ALLOWED, effect, change, spark)


def with_consequences(
    rule: str, effect: ChangeEffect, change: str, spark: str, remedy: str = ""
) -> ShapeFinding:
    when = When.LATER if effect in (ChangeEffect.HARMS, ChangeEffect.UNKNOWN) else When.NEVER
    return ShapeFinding(rule, ShapeVerdict.CONSEQUENCES, effect, change, spark, remedy, None, when)


def harmful(rule: str, change: str, spark: str, remedy: str) -> ShapeFinding:
    """Not allowed, although Spark does not object."""
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
    """Not allowed, and Spark refuses."""
    return ShapeFinding(
        rule, ShapeVerdict.NOT_ALLOWED, ChangeEffect.FAILS, change, spark, remedy, condition, when
    )
