"""Write events to files in a folder, for fleets that outgrow one server: the transport for a landing zone.

Chosen by `CONTROLPLANE_URL=file:///mnt/landing`. `controlplane history ingest` reads the folder;
`controlplane.pipeline.ingest.landing_zone` describes its format. A landing zone delivers no commands.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from listeners.delivery.transport import HttpTransport, ServerAcknowledgement
from listeners.protocol import wire
from listeners.protocol.errors import TransportError

SCHEME = "file://"
#: Events are collected for this long, because each delivery is one more file to list and open.
LINGER_SECONDS = 10.0
#: A poll returns without commands after this time.
NO_COMMANDS_SECONDS = 25.0
_AGENT = re.compile(r"[0-9A-Za-z-]{1,64}")


def is_landing(url: str) -> bool:
    """Whether a server URL is a folder."""
    return url.startswith(SCHEME)


def transport_of(
    server: str, token: str | None, ca_file: str | None, agent: str
) -> HttpTransport | LandingTransport:
    """The transport for a server's URL."""
    return LandingTransport(server) if is_landing(server) else HttpTransport(server, token, ca_file, agent)


class LandingTransport:
    """Writes to one folder. It must exist: a missing mount must not be filled below its mount point.

    Each delivery is a separate file. It is complete once it has its name, and synced before it is
    acknowledged.
    """

    def __init__(self, url: str):
        self._folder = _folder_of(url)

    def send(self, lines: Sequence[bytes], timeout: float = 10.0) -> ServerAcknowledgement:
        """Write a batch (one event a line, of one agent, in order); TransportError if the disk refuses it.

        `timeout` has no effect: a hanging file system blocks the sender's thread, and nothing else.
        """
        agent, first = _agent_and_seq(lines[0])
        last = _agent_and_seq(lines[-1])[1]
        try:
            self._write(f"{agent}-{first:012d}-{last:012d}.ndjson.gz", f".{agent}.part", lines)
        except OSError as error:
            raise TransportError(f"cannot write events to {self._folder}: {error}") from None
        return ServerAcknowledgement(last, 0)

    def _write(self, name: str, temporary_name: str, lines: Sequence[bytes]) -> None:
        temporary = os.path.join(self._folder, temporary_name)
        try:
            with open(temporary, "wb") as file:
                with gzip.GzipFile("", "wb", 6, file, 0) as packer:
                    for line in lines:
                        packer.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, os.path.join(self._folder, name))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(self._folder)

    def poll(self, agent: str, wait: float) -> list[wire.Command]:
        """Return no commands, after as long as a server that has none."""
        time.sleep(min(wait, NO_COMMANDS_SECONDS))
        return []

    def answer(self, command_id: str, result: wire.CommandResult) -> None:
        """Not supported: always raises TransportError."""
        raise TransportError("a landing zone accepts no command results", retryable=False)

    def preflight(self, document: Mapping[str, Any], timeout: float) -> Any:
        """Not supported: always raises TransportError."""
        raise TransportError("a landing zone cannot check whether a query would restart", retryable=False)


def _folder_of(url: str) -> str:
    parsed = urllib.parse.urlsplit(url)
    path = urllib.parse.unquote(parsed.path)
    if parsed.netloc not in ("", "localhost") or not os.path.isabs(path):
        raise TransportError(
            f"a landing zone must be file:///FOLDER with an absolute path, not {url[:80]!r}", retryable=False
        )
    return path


def _agent_and_seq(line: bytes) -> tuple[str, int]:
    """The agent and the sequence number of an event line."""
    document = wire.loads(line)
    agent, seq = document["agent"], document["seq"]
    if not _AGENT.fullmatch(agent):
        raise TransportError(f"{agent[:80]!r} is not an agent id", retryable=False)
    return agent, int(seq)


def _sync_folder(folder: str) -> None:
    """Sync the new name to disk. Not every file system can sync a folder; the file itself has been synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
