"""The wire format: events from agents, commands to agents and their results, as JSON.

It is part of the agent, which produces the events; the server imports it. One event is one line (NDJSON).
`data` is Spark's own JSON wherever Spark has one, so fields of later Spark versions are transported and
stored without a change here. Standard library only, Python 3.9.

Event types: app_started, started, start_failed, progress, idle, terminated, status, heartbeat, inventory,
checkpoint_logs, dropped, app_ended; `docs/events.md` describes their data. A type from a newer agent is stored raw,
not refused.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from listeners.protocol.errors import WireError

VERSION = 1
MAX_LABELS = 10
MAX_LABEL_CHARS = 128
MAX_NAME_CHARS = 256
MAX_APP_CHARS = 1024
#: Maximum depth of free-form JSON from people and agents.
MAX_NESTED = 32
#: `inventory` lists the checkpoint and changes nothing. `lease`: `overrides` has the restart leases of the driver.
LEASE = "lease"
ACTIONS = ("stop", "start", "restart", "inventory", LEASE)
#: Values of `CONTROLPLANE_ACTIONS` in the driver: which commands it executes.
ACTION_MODES = ("none", "stop", "all")
RESULT_STATES = ("running", "succeeded", "failed", "refused")
#: Why Spark does not answer the agent, as `unreachable.cause` of a heartbeat: the driver's JVM has ended, the
#: Spark Connect server accepts no connection, or a request has no answer yet.
JVM_EXITED, SERVER_AWAY, NO_ANSWER = "jvm_exited", "server_away", "no_answer"
OUTAGE_CAUSES = (JVM_EXITED, SERVER_AWAY, NO_ANSWER)
#: How the failure of a run begins that ended with its Spark Connect session.
SESSION_GONE = "the Spark Connect session is gone"
#: Why the driver ended, as `reason` of app_ended, where a person or a scheduler ended it: by a signal to the
#: program or to its JVM.
SIGTERM, SIGINT = "sigterm", "sigint"
SIGNAL_REASONS = (SIGTERM, SIGINT)
#: The same where the program removed its agent and goes on.
DETACHED = "detached"
#: The same where the driver failed; every other reason is an orderly end.
FAILED_REASONS = ("exception", JVM_EXITED)


@dataclass(frozen=True)
class App:
    """The Spark application of an agent; `name` is for people, `id` is Spark's own."""

    name: str
    id: str | None = None
    spark_version: str | None = None
    master: str | None = None
    ui_url: str | None = None


@dataclass(frozen=True)
class Event:
    """One event of an agent.

    `at` is in Unix seconds by the driver's clock; `seq` counts from 1 for each agent.
    """

    agent: str
    seq: int
    at: float
    app: App
    type: str
    data: dict[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """An action that the server requests for one query.

    `timeout_seconds` limits its execution by the agent.
    """

    id: str
    action: str
    query_id: str
    drain: bool = False
    timeout_seconds: float = 60.0
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CommandResult:
    """The result of a command. `code` is for programs, `reason` is a sentence for people."""

    state: str
    reason: str = ""
    code: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


def rfc3339(seconds: float) -> str:
    """Unix seconds → `2026-11-20T05:30:00.000Z`."""
    stamp = datetime.fromtimestamp(seconds, tz=timezone.utc)
    return stamp.isoformat(timespec="milliseconds")[:-6] + "Z"  # without +00:00; strftime takes twice as long


def seconds_of(value: str | int | float | None) -> float:
    """RFC 3339 text or Unix seconds → Unix seconds; WireError otherwise."""
    if isinstance(value, bool) or value is None:
        raise WireError("time must be RFC 3339 or Unix seconds")
    if isinstance(value, (int, float)):
        return _plausible(float(value))
    try:
        stamp = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        raise WireError(f"time {str(value)[:40]!r} is not RFC 3339, e.g. 2026-11-20T05:30:00Z") from None
    return _plausible((stamp if stamp.tzinfo else stamp.replace(tzinfo=timezone.utc)).timestamp())


def _plausible(seconds: float) -> float:
    if not math.isfinite(seconds) or not 0 <= seconds < 253402300800:  # the year 10000
        raise WireError("time is outside the years 1970 to 9999")
    return seconds


def encode_event(event: Event) -> str:
    """An event as one line, without the newline."""
    document = {
        "v": VERSION,
        "agent": event.agent,
        "seq": event.seq,
        "at": rfc3339(event.at),
        "app": {k: v for k, v in asdict(event.app).items() if v is not None},
        "labels": dict(event.labels),
        "type": event.type,
        "data": event.data,
    }
    return dumps(document)


def decode_event(line: str | bytes) -> Event:
    """Parse one line; a WireError names the field and what it must be.

    NaN and infinities become null and are stored as absent (older Spark writes them as rates).
    """
    return event_of(loads(line))


def event_of(document: Any) -> Event:
    """The event of a decoded line; a WireError names the field and what it must be."""
    if not isinstance(document, dict):
        raise WireError(f"a line must be a JSON object, not {type(document).__name__}")
    if document.get("v") != VERSION:
        raise WireError("v must be %d" % VERSION)
    return Event(
        agent=_uuid(document.get("agent")),
        seq=_seq(document.get("seq")),
        at=seconds_of(document.get("at")),
        app=_app(document.get("app")),
        type=_word(document.get("type"), "type", 64),
        data=_mapping(document.get("data"), "data"),
        labels=check_labels(document.get("labels") or {}),
    )


def _uuid(value: Any) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise WireError("agent must be a UUID") from None


def _seq(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise WireError("seq must be a whole number from 1")
    return value


def _word(value: Any, name: str, max_chars: int) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > max_chars:
        raise WireError("%s must be text of 1 to %d characters" % (name, max_chars))
    return value


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WireError(f"{name} must be a JSON object")
    return value


def _app(value: Any) -> App:
    app = _mapping(value, "app")
    optional = {}
    for key in ("id", "spark_version", "master", "ui_url"):
        text = app.get(key)
        if text is not None:
            optional[key] = _word(text, "app." + key, MAX_APP_CHARS)
    return App(name=_word(app.get("name"), "app.name", MAX_NAME_CHARS), **optional)


def check_labels(labels: Any) -> dict[str, str]:
    """At most 10 labels, Prometheus names, text values of up to 128 characters; WireError otherwise."""
    labels = _mapping(labels, "labels")
    if len(labels) > MAX_LABELS:
        raise WireError("labels: at most %d, not %d" % (MAX_LABELS, len(labels)))
    for name, value in labels.items():
        if not name.replace("_", "a").isalnum() or not name.isascii() or name[:1].isdigit():
            raise WireError(f"label name {name[:40]!r} must match [a-zA-Z_][a-zA-Z0-9_]*")
        if not isinstance(value, str) or len(value) > MAX_LABEL_CHARS:
            raise WireError("label %s must be text of at most %d characters" % (name[:40], MAX_LABEL_CHARS))
    return labels


def dumps(document: Any) -> str:
    """Compact JSON; NaN and infinities become null."""
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    except ValueError:
        return json.dumps(_finite(document), separators=(",", ":"), ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def _finite_float(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def loads(text: str | bytes) -> Any:
    """JSON → value; NaN, infinities and overflowing numbers become None; WireError if it is not JSON."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, parse_constant=lambda _: None, parse_float=_finite_float)
    except UnicodeDecodeError:
        raise WireError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise WireError("not JSON: %s at character %d" % (error.msg, error.pos + 1)) from None
    except RecursionError:
        raise WireError("the JSON is nested too deep") from None
    except ValueError:  # an integer of more than 4 300 digits
        raise WireError("a JSON number is too long") from None


def is_nested_too_deep(value: Any, max_depth: int = MAX_NESTED) -> bool:
    """Whether lists and mappings are nested deeper than `max_depth`, which a renderer may not support."""
    level = [value]
    for _ in range(max_depth):
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list))
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return any(isinstance(item, (dict, list)) for item in level)


def encode_command(command: Command) -> dict[str, Any]:
    """A command as the JSON value in the answer to the long poll."""
    return asdict(command)


def decode_command(document: Any) -> Command:
    """Parse a command's JSON value; a WireError names what is wrong."""
    document = _mapping(document, "command")
    action = document.get("action")
    if action not in ACTIONS:
        raise WireError("command.action must be one of {}".format(", ".join(ACTIONS)))
    timeout = document.get("timeout_seconds", 60.0)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= 3600:
        raise WireError("command.timeout_seconds must be above 0 and at most 3600")
    return Command(
        id=_word(document.get("id"), "command.id", 64),
        action=action,
        query_id=_word(document.get("query_id"), "command.query_id", 64),
        drain=bool(document.get("drain", False)),
        timeout_seconds=float(timeout),
        overrides=_mapping(document.get("overrides") or {}, "command.overrides"),
    )


def encode_result(result: CommandResult) -> dict[str, Any]:
    """A result as the JSON body of `POST /api/v1/commands/{id}/result`."""
    return asdict(result)


def decode_result(document: Any) -> CommandResult:
    """Parse the JSON body of a result; a WireError names what is wrong."""
    document = _mapping(document, "result")
    state = document.get("state")
    if state not in RESULT_STATES:
        raise WireError("result.state must be one of {}".format(", ".join(RESULT_STATES)))
    evidence = _mapping(document.get("evidence") or {}, "result.evidence")
    if is_nested_too_deep(evidence):
        raise WireError("result.evidence is nested deeper than %d" % MAX_NESTED)
    return CommandResult(
        state=state,
        reason=str(document.get("reason") or "")[:4000],
        code=str(document.get("code") or "")[:64],
        evidence=evidence,
    )
