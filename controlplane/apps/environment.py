"""Environment of a started driver: the agent's variables, so that the driver reports without a change to it.

Called by `controlplane.apps.service`; the launchers of processes and of standalone clusters add the agent's own place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from controlplane.apps.model import AppSpec, LauncherError
from listeners.protocol import wire

#: The label of queries that has the version of the application's code.
VERSION_LABEL = "version"
#: The directory whose `sitecustomize` attaches the agent (`listeners.packaging` in the driver).
SITE = Path(wire.__file__).resolve().parents[1] / "site"


def driver_environment(spec: AppSpec, server_url: str, token_file: Path | None) -> dict[str, str]:
    """The variables of the driver; those of the file come before the server's. LauncherError for an unreadable file."""
    labels = {**spec.labels, **({VERSION_LABEL: spec.version} if spec.version else {})}
    given = {
        "CONTROLPLANE_URL": server_url,
        "CONTROLPLANE_APP": spec.name,
        "CONTROLPLANE_LABELS": ",".join(f"{name}={value}" for name, value in labels.items()),
    }
    own = {**spec.environment, **{name: _read(path) for name, path in spec.environment_files.items()}}
    has_token = {"CONTROLPLANE_TOKEN", "CONTROLPLANE_TOKEN_FILE"} & own.keys()
    if token_file is not None and not has_token:
        given["CONTROLPLANE_TOKEN_FILE"] = str(token_file.absolute())
    return {**given, **own}


def with_agent(environment: Mapping[str, str], inherited: str | None = None) -> dict[str, str]:
    """The environment with the agent first on PYTHONPATH, for a driver that has the server's files."""
    path = [str(SITE), environment.get("PYTHONPATH") or inherited or ""]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LauncherError(
            f"the file {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
