"""The agent's configuration from the environment: labels, token, allowed actions.

A mistake is logged as one line, and the safe value applies; the program continues.
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
#: The server without `CONTROLPLANE_URL`.
DEFAULT_SERVER = "http://127.0.0.1:8420"


def process_facts(actions: str) -> dict[str, Any]:
    """The `data` of an `app_started` event: process, host, Python, program and agent version."""
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "python": platform.python_version(),
        "program": os.path.basename(sys.argv[0]) if sys.argv else None,
        "agent_version": AGENT_VERSION,
        "actions": actions,
        "leases": 1,
    }


def parse_labels(text: str | None) -> dict[str, str]:
    """`team=payments,env=prod` → a dict. Parts without `=` are ignored with a warning."""
    labels = {}
    for part in (text or "").split(","):
        name, separator, value = part.partition("=")
        if separator:
            labels[name.strip()] = value.strip()
        elif part.strip():
            log.warning("label %r ignored: it is not of the form name=value", part.strip())
    return labels


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that the wire format accepts; others are ignored with a warning."""
    good: dict[str, str] = {}
    for name, value in labels.items():
        try:
            good = wire.check_labels(dict(good, **{str(name): str(value)}))
        except AgentError as error:
            log.warning("label ignored: %s", error)
    return good


def checked_app(found: Mapping[str, Any], name: str | None) -> wire.App:
    """The application as Spark reports it, named `name` if given; fields are cut to the wire format's limits.

    An application without a name is named after its id.
    """
    facts = {
        key: str(value)[: wire.MAX_APP_CHARS] for key, value in found.items() if str(value or "").strip()
    }
    own_name = facts.pop("name", None)
    chosen = name if name and name.strip() else own_name
    if chosen is None:
        chosen = facts.get("id", "unnamed")
        log.warning("the application has no name; using %r; set CONTROLPLANE_APP to name it", chosen)
    if len(chosen) > wire.MAX_NAME_CHARS:
        log.warning(
            "the application's name has %d characters; cut to %d; set CONTROLPLANE_APP to shorten it",
            len(chosen),
            wire.MAX_NAME_CHARS,
        )
    return wire.App(chosen[: wire.MAX_NAME_CHARS], **facts)


def checked_mode(mode: str | None) -> str:
    """`CONTROLPLANE_ACTIONS` as `none`, `stop` or `all`; an unknown value forbids all actions."""
    if not mode:
        return "all"
    if mode in wire.ACTION_MODES:
        return mode
    log.warning("CONTROLPLANE_ACTIONS=%r is not none, stop or all; all actions are forbidden", mode)
    return "none"


def find_token() -> str | None:
    """The token from the environment, the file named there, or the embedded server's `agent.token`."""
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
        log.warning("CONTROLPLANE_TOKEN_FILE=%s does not exist; events are sent without a token", named)
    return None
