"""Findings of the checkpoint analyzer, and the verdict that they add up to.

An error that makes the restart fail → broken; any other error or a warning → risky; only notes → ok.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class RestartEffect(StrEnum):
    """What the finding means for a restart."""

    FAILS = "fails"
    DATA = "data"  # it runs, and loses, repeats or changes results
    LATER = "later"  # it runs, and a later batch or a reader of the output fails
    NONE = "none"


class ReportStatus(StrEnum):
    """The verdict on a checkpoint."""

    OK = "ok"
    RISKY = "risky"
    BROKEN = "broken"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Finding:
    """One fault or remark.

    `message`: sentences with the fault and what it means; `remedy`: steps to take.
    `when`: when Spark notices; `condition`: the error condition that it raises, where known.
    """

    check: str
    severity: Severity
    effect: RestartEffect
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    when: str = ""
    condition: str = ""
    remedy: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The JSON document that `doctor --json` and the API show."""
        return {**asdict(self), "evidence": dict(self.evidence), "remedy": list(self.remedy)}


@dataclass(frozen=True)
class CheckpointReport:
    """The analysis of one checkpoint for one Spark version; findings worst first."""

    checkpoint: str
    verdict: ReportStatus
    query_id: str | None
    spark_version: str | None
    target_spark: str
    last_planned_batch: int | None
    last_committed_batch: int | None
    next_batch: int | None
    findings: tuple[Finding, ...]

    @property
    def condition(self) -> str:
        """` if …`: what of the query must be true for the restart to fail, where every such finding infers it."""
        fails = [finding for finding in self.findings if finding.effect is RestartEffect.FAILS]
        if not all(finding.evidence.get("likely") for finding in fails):
            return ""
        return f" if {fails[0].evidence['if']}" if fails else ""

    def as_json(self) -> dict[str, Any]:
        """The JSON document that `doctor --json` and the API show."""
        return {**asdict(self), "findings": [finding.as_json() for finding in self.findings]}


START = "in start(), before the query runs"
INITIALIZATION = "while the query initializes"
FIRST_BATCH = "in the first batch"
SILENTLY = "never: Spark does not notice"

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)


def restart_fails(
    check: str,
    message: str,
    *,
    when: str = FIRST_BATCH,
    condition: str = "",
    remedy: Iterable[str] = (),
    **evidence: Any,
) -> Finding:
    """An error: the restart fails."""
    return Finding(
        check, Severity.ERROR, RestartEffect.FAILS, message, evidence, when, condition, tuple(remedy)
    )


def results_change(check: str, message: str, *, remedy: Iterable[str] = (), **evidence: Any) -> Finding:
    """A warning: the restart runs and silently loses, repeats or changes results."""
    return Finding(
        check, Severity.WARNING, RestartEffect.DATA, message, evidence, SILENTLY, "", tuple(remedy)
    )


def fails_later(
    check: str,
    message: str,
    *,
    when: str,
    condition: str = "",
    remedy: Iterable[str] = (),
    **evidence: Any,
) -> Finding:
    """A warning: the restart runs, but a later batch or a reader of the output fails."""
    return Finding(
        check, Severity.WARNING, RestartEffect.LATER, message, evidence, when, condition, tuple(remedy)
    )


def note(check: str, message: str, *, remedy: Iterable[str] = (), **evidence: Any) -> Finding:
    """A remark that needs no action before a restart."""
    return Finding(check, Severity.INFO, RestartEffect.NONE, message, evidence, "", "", tuple(remedy))


def plural(count: int, word: str) -> str:
    """`1 file`, `3 files`."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def status_of(findings: Iterable[Finding]) -> ReportStatus:
    """The verdict that the findings add up to."""
    worst = {(finding.severity, finding.effect) for finding in findings}
    if (Severity.ERROR, RestartEffect.FAILS) in worst:
        return ReportStatus.BROKEN
    risky = any(severity is not Severity.INFO for severity, _ in worst)
    return ReportStatus.RISKY if risky else ReportStatus.OK


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by severity, otherwise in their order."""
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.severity)))
