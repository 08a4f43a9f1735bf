"""Events to files in a folder, for fleets that outgrow one server: the landing form of the agent's transport.

`CONTROLPLANE_URL=file:///mnt/landing` chooses it. `controlplane history ingest` reads the folder; its format is told in
`controlplane.pipeline.ingest.landing_zone`. No commands come this way. Standard library only, Python 3.9.
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

from listeners.delivery.transport import ServerAcknowledgement
from listeners.protocol import wire
from listeners.protocol.errors import TransportError

SCHEME = "file://"
#: Events wait this long for company: a file a delivery, and each is one to list and to open.
LINGER_SECONDS = 10.0
#: Nobody answers; the agent asks again after this.
NO_COMMANDS_SECONDS = 25.0
_AGENT = re.compile(r"[0-9A-Za-z-]{1,64}")


def is_landing(url: str) -> bool:
    """Whether a server's URL means a folder."""
    return url.startswith(SCHEME)


class LandingTransport:
    """One folder, which must exist: a mount that is away must not be filled below its mount point.

    Every delivery is a file of its own, whole as soon as it has its name, and on the disk when it is acknowledged.
    """

    def __init__(self, url: str):
        self._folder = _folder_of(url)

    def send(self, lines: Sequence[bytes], timeout: float = 10.0) -> ServerAcknowledgement:
        """Write a batch (one event a line, of one agent, in order); TransportError while the disk does not take it.

        `timeout` cannot be kept: a file system that hangs, hangs the thread that delivers, and nothing else.
        """
        agent, first = _agent_and_seq(lines[0])
        last = _agent_and_seq(lines[-1])[1]
        try:
            self._write(f"{agent}-{first:012d}-{last:012d}.ndjson.gz", f".{agent}.part", lines)
        except OSError as error:
            raise TransportError(f"{self._folder} does not take a file of events: {error}") from None
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
        """There are none; takes as long as a server that has none."""
        time.sleep(min(wait, NO_COMMANDS_SECONDS))
        return []

    def answer(self, command_id: str, result: wire.CommandResult) -> None:
        raise TransportError("a landing zone takes no results of commands", retryable=False)

    def preflight(self, document: Mapping[str, Any], timeout: float) -> Any:
        raise TransportError("a landing zone cannot say whether a query would restart", retryable=False)


def _folder_of(url: str) -> str:
    parsed = urllib.parse.urlsplit(url)
    path = urllib.parse.unquote(parsed.path)
    if parsed.netloc not in ("", "localhost") or not os.path.isabs(path):
        raise TransportError(
            f"a landing zone must be file:///FOLDER with an absolute path, not {url[:80]!r}", retryable=False
        )
    return path


def _agent_and_seq(line: bytes) -> tuple[str, int]:
    """Who speaks in a line of ours, and its number."""
    document = wire.loads(line)
    agent, seq = document["agent"], document["seq"]
    if not _AGENT.fullmatch(agent):
        raise TransportError(f"{agent[:80]!r} is no name for an agent", retryable=False)
    return agent, int(seq)


def _sync_folder(folder: str) -> None:
    """The name is on the disk as well. Not every file system lets a folder be synced; the file itself was."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
