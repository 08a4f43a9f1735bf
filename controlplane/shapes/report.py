"""The comparison of two shapes as a JSON document for the store, the API and the doctor. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.model import ShapeChange
from controlplane.shapes.comparison import compare_shapes
from controlplane.shapes.findings import ChangeEffect, ShapeFinding, ShapeVerdict, effect_of, verdict_of
from controlplane.shapes.model import ShapeError, shape_from

UNKNOWN = "unknown"
_SEVERITIES = {
    ShapeVerdict.NOT_ALLOWED: "error",
    ShapeVerdict.CONSEQUENCES: "warning",
    ShapeVerdict.ALLOWED: "info",
}


def comparison_document(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """`{"verdict", "effect", "findings"}`; `unknown` where a shape cannot be read."""
    try:
        findings = compare_shapes(shape_from(old), shape_from(new))
    except ShapeError as error:
        return {"verdict": UNKNOWN, "effect": UNKNOWN, "findings": [], "reason": str(error)}
    return {
        "verdict": verdict_of(findings).value,
        "effect": effect_of(findings).value,
        "findings": [_document(finding) for finding in findings],
    }


def disallowed_change(run_id: str, comparison: Mapping[str, Any] | None) -> ShapeChange | None:
    """The gravest change in the comparison of a run's shape that the checkpoint does not allow; None without one."""
    findings = (comparison or {}).get("findings") or ()
    grave = [finding for finding in findings if finding["severity"] == "error"]
    if not grave:
        return None
    worst = next((finding for finding in grave if finding["effect"] == ChangeEffect.FAILS), grave[0])
    change, remedy = str(worst["change"]).rstrip("."), " ".join(worst["remedy"])
    spark = str(worst["message"]).removeprefix(change).lstrip(". ")
    return ShapeChange(run_id, change, spark, remedy, worst["effect"] == ChangeEffect.FAILS, len(grave) - 1)


def _document(finding: ShapeFinding) -> dict[str, Any]:
    return {
        "check": f"shape.{finding.rule}",
        "severity": _SEVERITIES[finding.verdict],
        "message": f"{finding.change.rstrip('.')}. {finding.spark}",
        "rule": finding.rule,
        "remedy": [finding.remedy] if finding.remedy else [],
        "change": finding.change,
        "effect": finding.effect.value,
        "when": finding.when.value,
        "condition": finding.condition or "",
    }
