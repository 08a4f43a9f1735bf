"""The server's report on an inventory: verdict, summary, findings, state stores and sizes as one JSON document. Pure.

Called by `controlplane.checkpoints.service`; the store keeps the document and the API shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import CheckpointReport, ReportStatus, RestartEffect, Severity
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.reading.checkpoint import CheckpointView, KnownHistory
from controlplane.checkpoints.reading.versions import LATEST, SparkVersion, parse_version
from controlplane.checkpoints.survey import Survey
from controlplane.model import CheckpointSummary

MAX_STORES = 2000
MAX_FINDINGS = 200
MAX_SUMMARY_LENGTH = 600


def build_report(survey: Survey, target: SparkVersion | None, history: KnownHistory | None) -> dict[str, Any]:
    """The doctor's JSON with `summary`, `stores`, `bytes`, `files`, `complete` and `committed_at` added."""
    verdict = analyze(survey.checkpoint, target, history=history, output=survey.output, inputs=survey.inputs)
    return {
        **truncated_report(verdict),
        "summary": summary(verdict),
        **file_statistics(survey.checkpoint, verdict),
    }


def truncated_report(verdict: CheckpointReport) -> dict[str, Any]:
    """The doctor's JSON with at most MAX_FINDINGS findings."""
    document = verdict.as_json()
    return {**document, "findings": document["findings"][:MAX_FINDINGS]}


def unreadable_report(trouble: str, checkpoint: str) -> dict[str, Any]:
    """The document of an inventory that cannot be read, because of `trouble`."""
    return {
        "checkpoint": checkpoint,
        "verdict": ReportStatus.UNREADABLE.value,
        "summary": f"The inventory cannot be analyzed: {trouble}"[:MAX_SUMMARY_LENGTH],
        "findings": [],
        "stores": [],
        "trouble": trouble[:MAX_SUMMARY_LENGTH],
    }


def summary(verdict: CheckpointReport) -> str:
    """What a restart will do, in one or two sentences."""
    worst = verdict.findings[0].message if verdict.findings else ""
    texts = {
        ReportStatus.OK: f"The next start resumes at batch {verdict.next_batch}.",
        ReportStatus.RISKY: f"The next start resumes at batch {verdict.next_batch}, but: {worst}",
        ReportStatus.BROKEN: f"A restart of the query fails{verdict.condition}: {worst}"
        if verdict.condition
        else f"A restart fails: {worst}",
        ReportStatus.UNREADABLE: worst,
    }
    return texts[verdict.verdict][:MAX_SUMMARY_LENGTH]


def file_statistics(inventory: Inventory, verdict: CheckpointReport) -> dict[str, Any]:
    """Numbers of files and bytes, the time of the newest commit (Unix seconds), and the state stores."""
    files = [entry.size for entry in inventory.entries.values() if not entry.folder]
    newest = inventory.entries.get(f"commits/{verdict.last_committed_batch}")
    return {
        "files": len(files),
        "bytes": sum(files),
        "committed_at": newest.modified if newest else None,
        "complete": inventory.complete,
        "stores": list(store_rows(inventory, verdict))[:MAX_STORES],
    }


def store_rows(inventory: Inventory, verdict: CheckpointReport) -> Iterator[dict[str, Any]]:
    """Each state store: its newest version and snapshot, the version that the next batch loads, files and bytes."""
    view = CheckpointView(inventory, _target(verdict))
    wanted = view.first_executed_batch or None
    sizes = _sizes(inventory)
    for operator in view.operators:
        for (partition, name), store in sorted(operator.stores.items()):
            count, size = sizes.get(store.folder, (0, 0))
            yield {
                "operator": operator.number,
                "partition": partition,
                "store": name,
                "newest_version": store.newest,
                "newest_snapshot": max((f.version for f in store.of("snapshot", "zip")), default=None),
                "expected_version": wanted,
                "files": count,
                "bytes": size,
            }


def _target(verdict: CheckpointReport) -> SparkVersion:
    try:
        return parse_version(verdict.target_spark)
    except ValueError:
        return LATEST


def _sizes(inventory: Inventory) -> dict[str, tuple[int, int]]:
    """Folder of a store → number of files and bytes in it, with its SSTs and logs."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for path, entry in inventory.entries.items():
        if entry.folder or not path.startswith("state/"):
            continue
        folder, _, _ = path.rpartition("/")
        folder = folder.removesuffix("/SSTs").removesuffix("/logs")
        counts[folder] += 1
        sizes[folder] += entry.size
    return {folder: (counts[folder], sizes[folder]) for folder in counts}


def checkpoint_seen(document: Mapping[str, Any], taken_at: float) -> CheckpointSummary:
    """The part of a stored report that the server holds in memory."""
    findings = document.get("findings") or []
    return CheckpointSummary(
        taken_at=taken_at,
        verdict=str(document["verdict"]),
        summary=str(document.get("summary") or ""),
        checkpoint=str(document.get("checkpoint") or ""),
        counts=dict(Counter((str(f["check"]), str(f["severity"])) for f in findings)),
        predicted_failure=_predicted_failure(findings),
        **{name: document.get(name) for name in _COPIED_FIELDS},
    )


_COPIED_FIELDS = (
    "run_id",
    "collector",
    "why",
    "spark_version",
    "target_spark",
    "last_planned_batch",
    "last_committed_batch",
    "next_batch",
    "bytes",
    "files",
    "committed_at",
    "trouble",
)


def _predicted_failure(findings: list[dict[str, Any]]) -> str | None:
    """The first finding that makes a restart fail, as a sentence with its check id."""
    grave = (f for f in findings if (f["severity"], f["effect"]) == (Severity.ERROR, RestartEffect.FAILS))
    first = next(grave, None)
    return f"{first['message'].rstrip('.')} ({first['check']})" if first else None
