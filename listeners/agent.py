"""The agent's threads: inbox → spool → server, commands ← server, heartbeat and status.

Four daemon threads, none of them Spark's or the user's: *spooler* gives events their sequence
numbers and writes them down, *sender* delivers and deletes after the acknowledgement, *poller* holds
the long poll, *prober* beats and asks Spark for the status.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from listeners import spool as spooling
from listeners import wire
from listeners.backoff import Backoff
from listeners.delivery import Delivery
from listeners.errors import SpoolError, TransportError
from listeners.inbox import Inbox, Item
from listeners.orders import Execute, Orders
from listeners.transport import Transport

log = logging.getLogger("controlplane.agent")

HEARTBEAT_SECONDS = 10.0
#: Events wait this long for company before they are sent.
LINGER_SECONDS = 0.25


@dataclass(frozen=True)
class Identity:
    """Who speaks: written into every event."""

    app: wire.App
    labels: Mapping[str, str]
    agent: str = field(default_factory=lambda: str(uuid.uuid4()))
    actions: str = "all"


class Agent:
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
    ):
        self.identity, self.inbox = identity, inbox
        self._probe, self._figures, self._redact = probe, figures, redact
        self._root, self._owner = spool_root, dict(owner)
        self._envelope = _envelope(identity)
        self._warned: dict[str, float] = {}
        self._stopping = threading.Event()
        self._written = threading.Event()
        self._all_written = threading.Event()
        self._nudged = threading.Event()
        self._spool_lock = threading.Lock()
        self._spool = self._open_spool()
        self._seq = self._spool.high_seq
        self._delivery = Delivery(transport, self._spool, self._spool_lock, self._warn)
        self._orders = Orders(transport, identity.agent, execute, self._stopping, self.nudge, self._warn)
        self._reported: dict[str, int] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._began = time.monotonic()

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        work = {
            "spooler": self._spool_all,
            "sender": self._send_all,
            "poller": self._orders.poll,
            "prober": self._probe_all,
        }
        for name, run in work.items():
            thread = threading.Thread(
                target=self._safely, args=(name, run), name="controlplane-" + name, daemon=True
            )
            self._threads[name] = thread
            thread.start()

    def nudge(self) -> None:
        """Something changed (a query started): ask Spark for the status soon."""
        self._nudged.set()

    def stop(self, timeout: float = 2.0) -> None:
        """Write down what is left, try to deliver it within `timeout` seconds, end the threads."""
        deadline = time.monotonic() + timeout
        self._stopping.set()
        self.inbox.close()
        self._nudged.set()
        self._join("spooler", timeout / 2)
        self._all_written.set()
        self._written.set()
        self._join("sender", deadline - time.monotonic())
        with self._spool_lock:
            self._spool.close(remove=self._spool.events == 0)

    def _join(self, name: str, seconds: float) -> None:
        thread = self._threads.get(name)
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.05, seconds))

    def abandon(self) -> None:
        """In a forked child: this agent belongs to the parent, and no thread of it is here."""
        self.inbox.abandon()

    def _safely(self, name: str, run: Callable[[], None]) -> None:
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

    def _open_spool(self) -> spooling.Queue:
        try:
            return spooling.open_spool(self._root, self.identity.agent, self._owner)
        except SpoolError as error:
            self._warn("spool", f"{error}; events wait in memory only")
            return spooling.MemoryQueue()

    def _spool_all(self) -> None:
        while True:
            items = self.inbox.take(1.0)
            if items:
                self._write_down(items)
                self._written.set()
            elif self._stopping.is_set():
                return

    def _write_down(self, items: Sequence[Item]) -> None:
        records = []
        for item in items:
            self._seq += 1
            line = self._envelope % (self._seq, wire.rfc3339(item.at), item.type, self._presentable(item))
            records.append((self._seq, line.encode("utf-8", "replace")))
        with self._spool_lock:
            self._spool.append(records)

    def _presentable(self, item: Item) -> str:
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
        backoff, adopted = Backoff(), False
        while True:
            self._written.wait(None if self._spool.events == 0 else LINGER_SECONDS)
            last_round = self._all_written.is_set()  # nothing is written after this is set
            if not last_round:
                self._stopping.wait(LINGER_SECONDS)
            self._written.clear()
            try:
                self._delivery.drain(timeout=1.5 if last_round else 10.0)
                if not adopted and not last_round:
                    self._delivery.adopt(self._root, self._owner)
                    adopted = True
                backoff.reset()
            except TransportError as error:
                self._warn("send", f"events wait on disk: {error}")
                if not last_round:
                    self._wait_out(backoff.next(error.retry_after))
            if last_round:
                return

    def _wait_out(self, seconds: float) -> None:
        """Wait before the next try; while stopping, only until all is written down."""
        if self._stopping.wait(seconds):
            self._all_written.wait(seconds)
        self._written.set()

    # -- signs of life ---------------------------------------------------------------------------

    def _probe_all(self) -> None:
        while not self._stopping.is_set():
            self._nudged.clear()
            self._beat()
            if self._nudged.wait(HEARTBEAT_SECONDS):
                self._stopping.wait(1.0)  # let the query that has just started settle

    def _beat(self) -> None:
        self._report_losses()
        self.inbox.put("heartbeat", wire.dumps(self._heartbeat()))
        try:
            status = self._probe()
        except Exception as error:
            self._warn("probe", f"Spark did not tell the status of its queries: {error}")
            return
        self.inbox.put("status", wire.dumps(status))

    def _heartbeat(self) -> dict[str, Any]:
        with self._spool_lock:
            waiting = {"events": self._spool.events, "bytes": self._spool.bytes}
        return {
            "uptime": round(time.monotonic() - self._began, 1),
            "actions": self.identity.actions,
            "spool": waiting,
            "dropped": self.losses(),
            "sent_at": time.time(),
            **self._figures(),
        }

    def losses(self) -> dict[str, int]:
        """What never reached the server, by reason, since the agent began."""
        total: dict[str, int] = dict(self.inbox.lost)
        for lost in (self._spool.lost, self._delivery.lost):
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
    """Where spools live: the setting, else a private directory of this user below the temporary one."""
    if setting:
        return Path(setting)
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    root = Path(tempfile.gettempdir()) / f"controlplane-spool-{user}"
    return root if _is_ours_alone(root) else Path(tempfile.mkdtemp(prefix="controlplane-spool-"))


def _is_ours_alone(root: Path) -> bool:
    """The name can be guessed: somebody else on this machine may have made the directory before us."""
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        found = root.lstat()
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return stat.S_ISDIR(found.st_mode) and mine and (os.name == "nt" or not found.st_mode & 0o077)
