"""Render the shipped rule pack and routing configuration from their templates.

`scale` multiplies every range and waiting time (a test or a demo cannot wait ten minutes); thresholds stay
unchanged. Reads only files of this package.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from textwrap import dedent, indent

from alerts.durations import format_duration, parse_duration
from alerts.rules.thresholds import comparison

#: Default location of the runbooks: in this repository.
RUNBOOKS = "alerts/rules/runbooks/"
MIN_DURATION_SECONDS = 1.0

_SCALED = re.compile(r"<<([0-9a-z]+)(\|seconds)?>>")
_COMPARED = re.compile(r"^( *)\[\[((?:(?!\[\[).)*?)\s>\s([a-z_]+)\]\]", re.DOTALL | re.MULTILINE)

#: Patterns of error conditions that concern the checkpoint or the state, where another start does not help.
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
    """The rule file. `runbooks`: URL prefix before `NAME.md` in `runbook_url`."""
    text = _filled("streaming.yaml.tmpl", scale).replace("%CHECKPOINT%", "|".join(CHECKPOINT_CONDITIONS))
    text = _COMPARED.sub(_with_threshold, text)
    return text.replace("%RUNBOOKS%", _in_quotes(runbooks))


def render_server_rules(scale: float = 1.0, runbooks: str = RUNBOOKS) -> str:
    """The rule file about the server itself, for a Prometheus beside it; `runbooks` as in `render`."""
    return _filled("server.yaml.tmpl", scale).replace("%RUNBOOKS%", _in_quotes(runbooks))


def render_routing(scale: float = 1.0, webhook: str | None = None) -> str:
    """The routing configuration. `webhook`: URL of the default receiver, if any."""
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


def _with_threshold(found: re.Match[str]) -> str:
    indentation, left, name = found.groups()
    return indent(comparison(dedent(left).strip(), name), indentation)


def _in_quotes(text: str) -> str:
    """Escape a text for single quotes in YAML and keep it from being read as a template."""
    return text.replace("'", "''").replace("{{", "{ {")


@cache
def meaning(name: str) -> str:
    """The meaning of a shipped rule in plain English: its runbook's first paragraph; empty without a runbook."""
    page = (runbook(name) or "").split("\n\n")
    sentence = " ".join(page[1].split()) if len(page) > 1 else ""
    return re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", sentence)


def runbook(name: str) -> str | None:
    """The runbook of an alert as Markdown; None if there is none."""
    if re.fullmatch(r"[A-Za-z]{1,64}", name) is None:
        return None
    page = files("alerts.rules").joinpath("runbooks", f"{name}.md")
    return page.read_text(encoding="utf-8") if page.is_file() else None
