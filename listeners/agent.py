"""The agent's threads: inbox → spool → server, commands ← server, heartbeat and status.

Four daemon threads, none of them Spark's or the user's: *spooler* gives events their sequence
numbers and writes them down, *sender* delivers and deletes after the acknowledgement, *poller* holds
the long poll, *prober* beats and asks Spark for the status.
"""

from __future__ import annotations

import collections
import json
import logging
import math
import os
import stat
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from listeners.commands.command_poller import CommandPoller, Execute
from listeners.delivery import orphans
from listeners.delivery.backoff import Backoff
from listeners.delivery.inbox import Inbox, Item
from listeners.delivery.segments import Record
from listeners.delivery.sender import EventSender
from listeners.delivery.spool import MAX_BYTES, Spool
from listeners.delivery.transport import Transport
from listeners.protocol import wire
from listeners.protocol.errors import SpoolError, TransportError

log = logging.getLogger("controlplane.agent")

HEARTBEAT_SECONDS = 10.0
#: Events wait this long for company before they are sent, unless the transport wants more of it.
LINGER_SECONDS = 0.25
#: What dead processes left is looked for so often, and delivered for so long at a time.
ADOPT_INTERVAL_SECONDS = 60.0
MAX_ADOPT_SECONDS = 5.0
SWEEP_INTERVAL_SECONDS = 3600.0
#: Events that are written down together; more at once would cost memory.
MAX_WRITE_EVENTS = 200
#: The server refuses longer lines; the inventory of a checkpoint may be larger.
MAX_LINE_BYTES = 1024 * 1024
MAX_INVENTORY_BYTES = 4 * 1024 * 1024
MIN_SPOOL_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Identity:
    """Who speaks: written into every event."""

    app: wire.App
    labels: Mapping[str, str]
    agent: str = field(default_factory=lambda: str(uuid.uuid4()))
    actions: str = "all"


class AgentThreads:
    """Delivers what is in the inbox and obeys commands. `start()` once, `stop(timeout)` once.

    `execute(command) -> CommandResult` and `probe() -> status document` come from outside, so this
    class knows nothing of Spark.
    """

    def __init__(
        self,
        identity: Identity,
        inbox: Inbox,
        transport: Transport,
        spool_root: Path,
        owner: Mapping[str, str],
        execute: Execute,
        probe: Callable[[], dict[str, Any]] = lambda: {"queries": []},
        figures: Callable[[], dict[str, Any]] = dict,
        redact: Callable[[str], str] = str,
        spool_bytes: int = MAX_BYTES,
        linger: float = LINGER_SECONDS,
    ):
        self._linger = linger
        self.identity, self.inbox = identity, inbox
        self._probe, self._figures, self._redact = probe, figures, redact
        self._root, self._owner = spool_root, dict(owner)
        self._envelope = _envelope(identity)
        self._warned: dict[str, float] = {}
        self._lost: dict[str, int] = collections.Counter()
        self._stopping = threading.Event()
        self._written = threading.Event()
        self._all_written = threading.Event()
        self._probe_requested = threading.Event()
        self._spool_lock = threading.Lock()
        self._spool = Spool(spool_root / identity.agent, owner, spool_bytes)
        self._seq = self._spool.high_seq
        self._sender = EventSender(transport, self._spool, self._spool_lock, self._warn)
        self._poller = CommandPoller(
            transport, identity.agent, execute, self._stopping, self.request_probe, self._warn
        )
        self._reported: dict[str, int] = {}
        self._noted: dict[str, int] = {}
        self._adopt_at, self._sweep_at, self._end_at = 0.0, 0.0, math.inf
        self._threads: dict[str, threading.Thread] = {}
        self._started_at = time.monotonic()

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        work = {
            "spooler": self._spool_all,
            "sender": self._send_all,
            "poller": self._poller.poll,
            "prober": self._probe_all,
        }
        for name, run in work.items():
            thread = threading.Thread(
                target=self._run_thread, args=(name, run), name="controlplane-" + name, daemon=True
            )
            self._threads[name] = thread
            thread.start()

    def request_probe(self) -> None:
        """Something changed (a query started): ask Spark for the status soon."""
        self._probe_requested.set()

    def stop(self, timeout: float = 2.0) -> None:
        """Write down what is left, try to deliver it within `timeout` seconds, end the threads."""
        self._end_at = time.monotonic() + timeout
        self._report_losses()
        self._stopping.set()
        self.inbox.close()
        self._probe_requested.set()
        self._join("spooler", timeout / 2)
        self._all_written.set()
        self._written.set()
        self._join("sender", self._end_at - time.monotonic())
        if self._spool_lock.acquire(timeout=0.5):  # a disk that hangs may hold it for ever
            try:
                self._close_spool()
            finally:
                self._spool_lock.release()

    def _close_spool(self) -> None:
        before = self._spool.lost.get("disk_unusable", 0)
        self._spool.close(remove=self._spool.events == 0)
        lost = self._spool.lost.get("disk_unusable", 0) - before
        if lost:
            self._warn("end", f"{lost} events are lost: neither server nor disk took them")

    def _join(self, name: str, seconds: float) -> None:
        thread = self._threads.get(name)
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.05, seconds))

    def abandon(self) -> None:
        """In a forked child: this agent belongs to the parent, and no thread of it is here."""
        self.inbox.abandon()
        self._spool.abandon()

    def _run_thread(self, name: str, run: Callable[[], None]) -> None:
        while True:
            try:
                return run()
            except Exception as error:
                self._warn("thread " + name, f"the agent's {name} met {error!r} and goes on")
                if self._stopping.wait(1.0):
                    return

    def _warn(self, kind: str, message: str) -> None:
        """Once per kind and minute: a guest does not flood its host's log."""
        now = time.monotonic()
        if now - self._warned.get(kind, -60.0) >= 60.0:
            self._warned[kind] = now
            log.warning("controlplane agent: %s", message)

    # -- events to disk --------------------------------------------------------------------------

    def _spool_all(self) -> None:
        while True:
            items = self.inbox.take(5.0)
            for start in range(0, len(items), MAX_WRITE_EVENTS):
                self._write_items(items[start : start + MAX_WRITE_EVENTS])
                self._written.set()
            self._note_losses()
            if not items and self._stopping.is_set():
                return

    def _write_items(self, items: Sequence[Item]) -> None:
        records = [(seq, line) for item in items for seq, line in self._encoded_records(item)]
        with self._spool_lock:
            self._spool.append(records)
        if self._spool.trouble is not None:
            self._warn("spool", f"{self._spool.trouble}; events wait in memory")

    def _encoded_records(self, item: Item) -> Iterator[Record]:
        """The event as it will travel, with the next sequence number; nothing where it cannot be told."""
        try:
            data = self._redacted_data(item)
            line = self._envelope % (self._seq + 1, wire.rfc3339(item.at), item.type, data)
        except Exception as error:
            self._count_lost("malformed", f"a {item.type} event cannot be told: {error!r}")
            return
        encoded = line.encode("utf-8", "replace")
        max_bytes = MAX_INVENTORY_BYTES if item.type == "inventory" else MAX_LINE_BYTES
        if len(encoded) > max_bytes:
            return self._count_lost(
                "too_large", f"a {item.type} event has {len(encoded)} bytes, too many to send"
            )
        self._seq += 1
        yield self._seq, encoded

    def _count_lost(self, reason: str, message: str) -> None:
        self._lost[reason] += 1
        self._warn(reason, message)

    def _note_losses(self) -> None:
        """On disk too, until they are reported: this process may be killed before."""
        losses = self.losses()
        unreported = {
            r: n - self._reported.get(r, 0) for r, n in losses.items() if n > self._reported.get(r, 0)
        }
        if unreported != self._noted:
            self._noted = unreported
            with self._spool_lock:
                self._spool.save_losses(unreported)

    def _redacted_data(self, item: Item) -> str:
        """Spark's JSON as it is; a failure's text without its secrets."""
        data = item.data
        if item.type == "terminated" and '"exception"' in data:
            document = json.loads(data)
            if document.get("exception"):
                document["exception"] = self._redact(str(document["exception"]))
            return wire.dumps(document)
        return data if "\n" not in data else wire.dumps(wire.loads(data))

    # -- disk to server --------------------------------------------------------------------------

    def _send_all(self) -> None:
        backoff = Backoff()
        while True:
            self._written.wait(None if self._spool.events == 0 else LINGER_SECONDS)
            last_round = self._all_written.is_set()  # nothing is written after this is set
            if not last_round:
                self._stopping.wait(self._linger)
            self._written.clear()
            try:
                self._sender.drain(1.5 if last_round else 10.0, self._end_at if last_round else math.inf)
                if not last_round:
                    self._adopt_orphans()
                backoff.reset()
            except (TransportError, SpoolError) as error:
                self._warn("send", f"events wait on disk: {error}")
                if not last_round:
                    self._wait_before_retry(backoff.next(getattr(error, "retry_after", None)))
            if last_round:
                return

    def _adopt_orphans(self) -> None:
        now = time.monotonic()
        if now >= self._adopt_at:
            self._adopt_at = now + ADOPT_INTERVAL_SECONDS
            try:
                done = self._sender.adopt(self._root, self._owner, until=now + MAX_ADOPT_SECONDS)
            except (TransportError, SpoolError) as error:  # ours must not wait for theirs
                return self._warn("adopt", f"what a dead process left waits on: {error}")
            if not done:
                self._adopt_at = now
                self._written.set()  # our own events in between, then the rest
        if now >= self._sweep_at:
            orphans.sweep(self._root, time.time())
            self._sweep_at = now + SWEEP_INTERVAL_SECONDS

    def _wait_before_retry(self, seconds: float) -> None:
        """Wait before the next try; while stopping, only until all is written down."""
        if self._stopping.wait(seconds):
            self._all_written.wait(seconds)
        self._written.set()

    # -- signs of life ---------------------------------------------------------------------------

    def _probe_all(self) -> None:
        while not self._stopping.is_set():
            self._probe_requested.clear()
            self._send_heartbeat()
            if self._probe_requested.wait(HEARTBEAT_SECONDS):
                self._stopping.wait(1.0)  # let the query that has just started settle

    def _send_heartbeat(self) -> None:
        self._report_losses()
        self.inbox.put("heartbeat", wire.dumps(self._heartbeat()))
        try:
            status = self._probe()
        except Exception as error:
            self._warn("probe", f"Spark did not tell the status of its queries: {error}")
            return
        self.inbox.put("status", wire.dumps(status))

    def _heartbeat(self) -> dict[str, Any]:
        return {
            "uptime": round(time.monotonic() - self._started_at, 1),
            "actions": self.identity.actions,
            "spool": self._spool_state(),
            "dropped": self.losses(),
            "sent_at": time.time(),
            **self._figures(),
        }

    def _spool_state(self) -> dict[str, Any]:
        if not self._spool_lock.acquire(timeout=1.0):
            return {}  # the disk hangs: that we live is worth telling all the same
        try:
            spool = self._spool
            return {"events": spool.events, "bytes": spool.bytes, "trouble": spool.trouble}
        finally:
            self._spool_lock.release()

    def losses(self) -> dict[str, int]:
        """What never reached the server, by reason, since the agent began."""
        total: dict[str, int] = dict(self.inbox.lost)
        for lost in (self._lost, self._spool.lost, self._sender.lost):
            for reason, count in list(lost.items()):
                total[reason] = total.get(reason, 0) + count
        return {reason: count for reason, count in total.items() if count}

    def _report_losses(self) -> None:
        for reason, count in self.losses().items():
            new = count - self._reported.get(reason, 0)
            if new > 0:
                self._reported[reason] = count
                self.inbox.put("dropped", wire.dumps({"reason": reason, "count": new}))


def _envelope(identity: Identity) -> str:
    """The line of an event with places for seq, at, type and data (JSON text, not parsed again)."""
    app = {k: v for k, v in vars(identity.app).items() if v is not None}
    head = wire.dumps({"v": wire.VERSION, "agent": identity.agent})[:-1].replace("%", "%%")
    tail = wire.dumps({"app": app, "labels": dict(identity.labels)})[1:-1].replace("%", "%%")
    return head + ',"seq":%d,"at":"%s",' + tail + ',"type":"%s","data":%s}'


def spool_root(setting: str | None) -> Path:
    """Where spools live: the setting, else a private directory of this user below the temporary one.

    Where no directory can be made it is a path that nothing can be written to: events then wait in memory.
    """
    if setting:
        return Path(setting)
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    try:
        root = Path(tempfile.gettempdir()) / f"controlplane-spool-{user}"
        return root if _is_private(root) else Path(tempfile.mkdtemp(prefix="controlplane-spool-"))
    except OSError as error:
        log.warning("%s; events wait in memory (CONTROLPLANE_SPOOL_DIR names a directory for them)", error)
        return Path(os.devnull) / "controlplane-spool"


def spool_limit(setting: str | None) -> int:
    """`CONTROLPLANE_SPOOL_BYTES`: how many bytes may wait on disk, 256 MiB unless set; at least 1 MiB."""
    if not setting:
        return MAX_BYTES
    if setting.isascii() and setting.isdigit() and int(setting) >= MIN_SPOOL_BYTES:
        return int(setting)
    log.warning(
        "CONTROLPLANE_SPOOL_BYTES=%r is not a whole number of at least %d; it stays at %d",
        setting[:40],
        MIN_SPOOL_BYTES,
        MAX_BYTES,
    )
    return MAX_BYTES


def _is_private(root: Path) -> bool:
    """The name can be guessed: somebody else on this machine may have made the directory before us."""
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        status = root.lstat()
    except OSError:
        return False
    is_owned_by_us = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and is_owned_by_us and (os.name == "nt" or not status.st_mode & 0o077)
