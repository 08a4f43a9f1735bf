"""What the agent reads from its surroundings: labels, the token, what the driver allows.

A mistake here is one line in the log; the user's program goes on, with the careful reading of it.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

from listeners.protocol import wire
from listeners.protocol.errors import AgentError

log = logging.getLogger("controlplane.agent")

AGENT_VERSION = "0.1.0"


def process_facts(actions: str) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "python": platform.python_version(),
        "program": os.path.basename(sys.argv[0]) if sys.argv else None,
        "agent_version": AGENT_VERSION,
        "actions": actions,
    }


def parse_labels(text: str | None) -> dict[str, str]:
    """`team=payments,env=prod` → a dict; parts without `=` are passed over with a line in the log."""
    labels = {}
    for part in (text or "").split(","):
        name, separator, value = part.partition("=")
        if separator:
            labels[name.strip()] = value.strip()
        elif part.strip():
            log.warning("label %r is not of the form name=value; it is left out", part.strip())
    return labels


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that the wire takes; the others are left out with a line in the log."""
    good: dict[str, str] = {}
    for name, value in labels.items():
        try:
            good = wire.check_labels(dict(good, **{str(name): str(value)}))
        except AgentError as error:
            log.warning("%s; the label is left out", error)
    return good


def checked_app(found: Mapping[str, Any], name: str | None) -> wire.App:
    """The application as Spark tells it, under `name` if that is given; no field longer than the wire takes.

    An application without a name goes by its id.
    """
    facts = {
        key: str(value)[: wire.MAX_APP_CHARS] for key, value in found.items() if str(value or "").strip()
    }
    own_name = facts.pop("name", None)
    chosen = name if name and name.strip() else own_name
    if chosen is None:
        chosen = facts.get("id", "unnamed")
        log.warning("the application has no name; it goes by %r (CONTROLPLANE_APP names it)", chosen)
    if len(chosen) > wire.MAX_NAME_CHARS:
        log.warning(
            "the application's name has %d characters; it is cut to %d (CONTROLPLANE_APP names it)",
            len(chosen),
            wire.MAX_NAME_CHARS,
        )
    return wire.App(chosen[: wire.MAX_NAME_CHARS], **facts)


def checked_mode(mode: str | None) -> str:
    """`CONTROLPLANE_ACTIONS`; an unknown word forbids all actions (the careful reading)."""
    if not mode:
        return "all"
    if mode in wire.ACTION_MODES:
        return mode
    log.warning("CONTROLPLANE_ACTIONS=%r is not one of none, stop, all; no action is allowed", mode)
    return "none"


def find_token() -> str | None:
    """The token: environment, file named by the environment, or the embedded server's `agent.token`."""
    text = os.environ.get("CONTROLPLANE_TOKEN")
    if text:
        return text.strip()
    named = os.environ.get("CONTROLPLANE_TOKEN_FILE")
    local = os.path.join(os.environ.get("CONTROLPLANE_DATA_DIR", "controlplane-data"), "agent.token")
    for path in (named, local):
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
    if named:
        log.warning("CONTROLPLANE_TOKEN_FILE=%s does not exist", named)
    return None
