"""The seam of the launchers: what each of them does, and what describes a kind.

A launcher is made for one application from the fields that its kind has read; `build` gets the directory in which it
may keep files. All methods block for as long as the launched system takes, at most `CALL_SECONDS` for one request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from alerts.yaml.fields import FieldReader, Fields
from alerts.yaml.tree import Mark
from controlplane.apps.model import DriverStatus, StartedDriver

CALL_SECONDS = 15.0
POLL_SECONDS = 0.2
MAX_LOG_BYTES = 256 * 1024


@dataclass(frozen=True)
class Launch:
    """A start: the driver to be started and its environment, the agent's variables included."""

    driver: StartedDriver
    environment: Mapping[str, str]


class Launcher(Protocol):
    """Starts and stops drivers of one application. Every method raises LauncherError."""

    def start(self, launch: Launch) -> Mapping[str, Any]:
        """Start the driver; return its handle as JSON. LauncherError.may_live if it may have started all the same."""
        ...

    def stop(self, driver: StartedDriver, grace_seconds: float) -> None:
        """Ask the driver to end, and end it by force after the grace. Returns when it has ended; idempotent."""
        ...

    def state(self, driver: StartedDriver) -> DriverStatus:
        """What is known of the driver now; `unknown`, never `ended`, where the answer is uncertain."""
        ...

    def logs(self, driver: StartedDriver, lines: int) -> str:
        """The last lines of the driver's output, at most MAX_LOG_BYTES."""
        ...


LauncherSettings = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """The section `launcher` of an application: reads fields and records errors at their places."""

    reader: FieldReader
    fields: Fields
    mark: Mark
    kind: str

    def text(self, name: str, needed: bool = False) -> str | None:
        """A string; None where it is absent."""
        found = self.reader.string(self.fields, name)
        if needed and (found is None or not found.value):
            self.missing(name)
        return found.value if found is not None else None

    def texts(self, name: str, needed: bool = False) -> list[str]:
        """A list of strings."""
        found = [item.value for item in self.reader.strings(self.fields, name)]
        if needed and not found and not self._has_error_at(name):
            self.missing(f"{name}, a list such as [a, b]")
        return found

    def pairs(self, name: str) -> dict[str, str]:
        """A mapping of strings."""
        return {key.value: value.value for key, value in self.reader.pairs(self.fields, name)}

    def path(self, name: str) -> str | None:
        """An absolute path."""
        found = self.reader.string(self.fields, name)
        if found is not None and not found.value.startswith("/"):
            self.reader.add_error(found.mark, f"{name}: {found.value[:80]!r} is not an absolute path")
        return found.value if found is not None else None

    def urls(self, name: str) -> list[str]:
        """A list of http or https addresses, which must be there, without trailing slashes."""
        found = list(self.reader.strings(self.fields, name))
        if not found and not self._has_error_at(name):
            self.missing(f"{name}, a list such as [http://host:6066]")
        for node in found:
            if not node.value.startswith(("http://", "https://")):
                message = f"{name}: {node.value[:80]!r} is not an address such as https://host:6066"
                self.reader.add_error(node.mark, message)
        return [node.value.rstrip("/") for node in found]

    def missing(self, what: str) -> None:
        """Record that a field is missing."""
        self.reader.add_error(self.mark, f"a launcher of kind {self.kind} needs {what}")

    def _has_error_at(self, name: str) -> bool:
        node = self.fields.get(name)
        return node is not None and any(
            (e.line, e.column) == (node.mark.line, node.mark.column) for e in self.reader.errors
        )


class LauncherKind(NamedTuple):
    """A kind of launcher: the fields of its section, how they are read as JSON, and how the launcher is built.

    `build` gets these fields and a directory for files.
    """

    name: str
    fields: tuple[str, ...]
    read: Callable[[Section], LauncherSettings]
    build: Callable[[LauncherSettings, Path], Launcher]


def tail(text: str, lines: int) -> str:
    """The last lines of a text."""
    return "\n".join(text[-MAX_LOG_BYTES:].splitlines()[-lines:])


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    """Poll until `done`; False where it is not within `seconds`."""
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_SECONDS)
    return True
