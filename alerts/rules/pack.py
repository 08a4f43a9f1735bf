"""The rules and routes that ship, rendered from their templates.

`scale` multiplies every window and waiting time (a test or a demo cannot wait for ten minutes); thresholds
stay as they are. Reads its own package's files and nothing else.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files

from alerts.durations import format_duration, parse_duration

#: Where the pages on the alerts are, unless the caller knows better: in this repository.
RUNBOOKS = "alerts/rules/runbooks/"
MIN_DURATION_SECONDS = 1.0

_SCALED = re.compile(r"<<([0-9a-z]+)(\|seconds)?>>")

#: Error conditions that say: it is the checkpoint or the state, and another start does not help.
CHECKPOINT_CONDITIONS = (
    "CANNOT_LOAD_STATE_STORE.*",
    "CANNOT_WRITE_STATE_STORE.*",
    "CANNOT_LOAD_CHECKPOINT_FILE_MANAGER.*",
    "STATE_STORE_.*",
    "STATE_REPARTITION_.*",
    "STATE_REWRITER_.*",
    "STREAMING_CHECKPOINT_.*",
    "STREAMING_STATEFUL_OPERATOR_.*",
    "STREAMING_UNFINISHED_REPARTITION_DETECTED",
    "STREAMING_QUERY_EVOLUTION_ERROR.*",
    "STREAM_STREAM_JOIN_INCO.*",
    "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
    "CONCURRENT_STREAM_LOG_UPDATE",
    "BATCH_METADATA_NOT_FOUND",
    "INVALID_LOG_VERSION",
    "MALFORMED_LOG_FILE",
    "log-.*",
    "second-writer",
    "sources-changed",
    "state-.*",
)


def render(scale: float = 1.0, runbooks: str = RUNBOOKS) -> str:
    """The rule file. `runbooks`: what stands before `NAME.md` in the address of an alert's page."""
    text = _filled("streaming.yaml.tmpl", scale)
    conditions = "|".join(CHECKPOINT_CONDITIONS)
    return text.replace("%CHECKPOINT%", conditions).replace("%RUNBOOKS%", _in_quotes(runbooks))


def render_routing(scale: float = 1.0, webhook: str | None = None) -> str:
    """The configuration of routes and inhibitions; `webhook` is the address that is told, if any."""
    hooks = f"\n    webhook_configs: [{{url: {json.dumps(webhook)}}}]" if webhook else ""
    return _filled("routing.yaml.tmpl", scale).replace("%WEBHOOKS%", hooks)


def _filled(name: str, scale: float) -> str:
    if not 0 < scale <= 1000:
        raise ValueError(f"the scale must be above 0 and at most 1000, not {scale}")
    text = files("alerts.rules").joinpath(name).read_text(encoding="utf-8")
    return _SCALED.sub(lambda found: _scaled(found, scale), text)


def _scaled(found: re.Match[str], scale: float) -> str:
    seconds = max(MIN_DURATION_SECONDS, round(parse_duration(found[1]) * scale, 3))
    return f"{seconds:g}" if found[2] else format_duration(seconds)


def _in_quotes(text: str) -> str:
    """Fit for the inside of a text between single quotes, where nothing is a template."""
    return text.replace("'", "''").replace("{{", "{ {")


def runbook(name: str) -> str | None:
    """The page on an alert as Markdown; None where none ships."""
    if re.fullmatch(r"[A-Za-z]{1,64}", name) is None:
        return None
    page = files("alerts.rules").joinpath("runbooks", f"{name}.md")
    return page.read_text(encoding="utf-8") if page.is_file() else None
