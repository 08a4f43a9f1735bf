"""What the judge says: findings, and the verdict they add up to.

error, and the restart fails → broken; any other error or a warning → risky; only notes → ok.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class RestartEffect(StrEnum):
    """What a restart does to the user."""

    FAILS = "fails"
    DATA = "data"  # it runs, and loses, repeats or changes results
    LATER = "later"  # it runs, and a later batch or a reader of the output fails
    NONE = "none"


class ReportStatus(StrEnum):
    OK = "ok"
    RISKY = "risky"
    BROKEN = "broken"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Finding:
    """One thing found. `when`: when Spark will notice; `condition`: the error it will raise, where one is known."""

    check: str
    severity: Severity
    effect: RestartEffect
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    when: str = ""
    condition: str = ""
    remedy: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "evidence": dict(self.evidence), "remedy": list(self.remedy)}


@dataclass(frozen=True)
class CheckpointReport:
    """The judgement of one checkpoint for one version of Spark; findings worst first."""

    checkpoint: str
    verdict: ReportStatus
    query_id: str | None
    spark_version: str | None
    target_spark: str
    last_planned_batch: int | None
    last_committed_batch: int | None
    next_batch: int | None
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
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
    """A restart will fail."""
    return Finding(
        check, Severity.ERROR, RestartEffect.FAILS, message, evidence, when, condition, tuple(remedy)
    )


def results_change(check: str, message: str, *, remedy: Iterable[str] = (), **evidence: Any) -> Finding:
    """A restart will run, and lose, repeat or change results without a word."""
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
    """A restart will run; something else fails afterwards."""
    return Finding(
        check, Severity.WARNING, RestartEffect.LATER, message, evidence, when, condition, tuple(remedy)
    )


def note(check: str, message: str, *, remedy: Iterable[str] = (), **evidence: Any) -> Finding:
    """Worth knowing; nothing to do before a restart."""
    return Finding(check, Severity.INFO, RestartEffect.NONE, message, evidence, "", "", tuple(remedy))


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def status_of(findings: Iterable[Finding]) -> ReportStatus:
    worst = {(finding.severity, finding.effect) for finding in findings}
    if (Severity.ERROR, RestartEffect.FAILS) in worst:
        return ReportStatus.BROKEN
    risky = any(severity is not Severity.INFO for severity, _ in worst)
    return ReportStatus.RISKY if risky else ReportStatus.OK


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.severity)))
