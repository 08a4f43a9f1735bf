"""The agent's threads: inbox → spool → server, commands from the server, heartbeat and status.

Five daemon threads, separate from Spark's and the program's. *spooler* assigns sequence numbers and appends
events to the spool. *sender* delivers them and deletes them after the acknowledgement. *poller* holds the
long poll for commands. *prober* asks Spark for the status of its queries. *heartbeat* reports that this process
lives and whether Spark answers: it never waits for Spark.
"""

from __future__ import annotations

import collections
import json
import logging
import math
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
from listeners.protocol import redaction, wire
from listeners.protocol.errors import SpoolError, TransportError
from listeners.queries.reachability import Reachability
from listeners.spark.engine import SparkOutage

log = logging.getLogger("controlplane.agent")

HEARTBEAT_SECONDS = 10.0
#: How soon a poll that found a broken connection is repeated.
CONFIRM_SECONDS = 1.0
#: How long the sender waits for more events before it sends a batch, unless the transport sets another time.
LINGER_SECONDS = 0.25
#: Time between two requests that send nothing but these: a driver of 50 queries would send four a second.
PACE_SECONDS = 1.0
PACED = frozenset(("progress", "idle", "status", "heartbeat"))
#: Interval between searches for spools of dead processes, and the time limit for delivering them.
ADOPT_INTERVAL_SECONDS = 60.0
MAX_ADOPT_SECONDS = 5.0
SWEEP_INTERVAL_SECONDS = 3600.0
#: Events in one append to the spool; more would cost memory.
MAX_WRITE_EVENTS = 200
#: The server rejects longer lines. Lines with a checkpoint inventory may be longer.
MAX_LINE_BYTES = 1024 * 1024
MAX_INVENTORY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Identity:
    """Application, labels and agent id: written into every event."""

    app: wire.App
    labels: Mapping[str, str]
    agent: str = field(default_factory=lambda: str(uuid.uuid4()))
    actions: str = "all"


class AgentThreads:
    """Deliver the inbox to the server and execute its commands. Call `start()` once and `stop(timeout)` once.

    `execute(command) -> CommandResult` and `probe() -> status document` are injected, so this class does not
    depend on Spark. `figures()` returns additional fields for the heartbeat.
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
        outage_of: Callable[[Exception], SparkOutage | None] = lambda error: None,
        redact_json: Callable[[str], str] = redaction.redact_json,
    ):
        self._linger = linger
        self.identity, self.inbox = identity, inbox
        self._probe, self._figures = probe, figures
        self._redact, self._redact_json = redact, redact_json
        self._root, self._owner = spool_root, dict(owner)
        self._envelope = _envelope(identity)
        self._warned: dict[str, float] = {}
        self._lost: dict[str, int] = collections.Counter()
        self._stopping = threading.Event()
        self._written = threading.Event()
        #: An event was written that must not wait for others, or the agent stops.
        self._urgent = threading.Event()
        self._all_written = threading.Event()
        self._probe_requested, self._heartbeat_due = threading.Event(), threading.Event()
        self.reachability = Reachability(outage_of)
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
        self._executors: int | None = None

    # -- lifecycle -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the five threads."""
        work = {
            "spooler": self._spool_all,
            "sender": self._send_all,
            "poller": self._poller.poll,
            "prober": self._probe_all,
            "heartbeat": self._send_heartbeats,
        }
        for name, run in work.items():
            thread = threading.Thread(
                target=self._run_thread, args=(name, run), name="controlplane-" + name, daemon=True
            )
            self._threads[name] = thread
            thread.start()

    def request_probe(self) -> None:
        """Ask Spark for the status soon: something has changed, such as a query that started."""
        self._probe_requested.set()
        self._heartbeat_due.set()

    def stop(self, timeout: float = 2.0) -> None:
        """Spool the remaining events, try to deliver them within `timeout` seconds and end the threads."""
        self._end_at = time.monotonic() + timeout
        self._report_losses()
        self._stopping.set()
        self.inbox.close()
        self._probe_requested.set()
        self._heartbeat_due.set()
        self._join("spooler", timeout / 2)
        self._all_written.set()
        self._urgent.set()
        self._written.set()
        self._join("sender", self._end_at - time.monotonic())
        if self._spool_lock.acquire(timeout=0.5):  # a hanging disk may hold the lock forever
            try:
                self._close_spool()
            finally:
                self._spool_lock.release()

    def _close_spool(self) -> None:
        before = self._spool.lost.get("disk_unusable", 0)
        self._spool.close(remove=self._spool.events == 0)
        lost = self._spool.lost.get("disk_unusable", 0) - before
        if lost:
            self._warn("end", f"{lost} events lost: neither the server nor the disk accepted them")

    def _join(self, name: str, seconds: float) -> None:
        thread = self._threads.get(name)
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.05, seconds))

    def abandon(self) -> None:
        """Release the agent in a forked child: it belongs to the parent, as do its threads."""
        self.inbox.abandon()
        self._spool.abandon()

    def _run_thread(self, name: str, run: Callable[[], None]) -> None:
        while True:
            try:
                return run()
            except Exception as error:
                self._warn(
                    "thread " + name, f"internal error in the agent's {name}, which continues: {error!r}"
                )
                if self._stopping.wait(1.0):
                    return

    def _warn(self, kind: str, message: str) -> None:
        """Log a warning at most once a minute for each kind, so as not to flood the program's log."""
        now = time.monotonic()
        if now - self._warned.get(kind, -60.0) >= 60.0:
            self._warned[kind] = now
            log.warning("controlplane agent: %s", message)

    # -- inbox to spool --------------------------------------------------------------------------

    def _spool_all(self) -> None:
        while True:
            items = self.inbox.take(5.0)
            for start in range(0, len(items), MAX_WRITE_EVENTS):
                self._write_items(items[start : start + MAX_WRITE_EVENTS])
                self._written.set()
            if any(item.type not in PACED for item in items):
                self._urgent.set()
            self._note_losses()
            if not items and self._stopping.is_set():
                return

    def _write_items(self, items: Sequence[Item]) -> None:
        records = [(seq, line) for item in items for seq, line in self._encoded_records(item)]
        with self._spool_lock:
            self._spool.append(records)
        if self._spool.trouble is not None:
            self._warn("spool", f"{self._spool.trouble}; events are kept in memory")

    def _encoded_records(self, item: Item) -> Iterator[Record]:
        """Yield the event's line with the next sequence number; nothing if the event cannot be encoded."""
        try:
            data = self._redacted_data(item)
            line = self._envelope % (self._seq + 1, wire.rfc3339(item.at), item.type, data)
        except Exception as error:
            self._count_lost("malformed", f"dropped a {item.type} event that cannot be encoded: {error!r}")
            return
        encoded = line.encode("utf-8", "replace")
        max_bytes = MAX_INVENTORY_BYTES if item.type == "inventory" else MAX_LINE_BYTES
        if len(encoded) > max_bytes:
            return self._count_lost(
                "too_large",
                f"dropped a {item.type} event of {len(encoded)} bytes, over the limit of {max_bytes}",
            )
        self._seq += 1
        yield self._seq, encoded

    def _count_lost(self, reason: str, message: str) -> None:
        self._lost[reason] += 1
        self._warn(reason, message)

    def _note_losses(self) -> None:
        """Save unreported losses on disk too: this process may be killed before it reports them."""
        losses = self.losses()
        unreported = {
            r: n - self._reported.get(r, 0) for r, n in losses.items() if n > self._reported.get(r, 0)
        }
        if unreported != self._noted:
            self._noted = unreported
            with self._spool_lock:
                self._spool.save_losses(unreported)

    def _redacted_data(self, item: Item) -> str:
        """Spark's JSON on one line, unchanged except that secrets are masked and a failure's text is cut."""
        data = item.data
        if item.type == "terminated" and '"exception"' in data:
            document = json.loads(data)
            if document.get("exception"):
                document["exception"] = self._redact(str(document["exception"]))
            data = wire.dumps(document)
        data = self._redact_json(data)
        return data if "\n" not in data else wire.dumps(wire.loads(data))

    # -- spool to server -------------------------------------------------------------------------

    def _send_all(self) -> None:
        backoff, sent_at = Backoff(), -math.inf
        while True:
            self._written.wait(None if self._spool.events == 0 else LINGER_SECONDS)
            if not self._all_written.is_set():
                self._stopping.wait(self._linger)
                self._urgent.wait(max(0.0, sent_at + PACE_SECONDS - time.monotonic()))
            self._urgent.clear()
            self._written.clear()
            last_round = self._all_written.is_set()  # nothing is appended after this is set
            sent_at = time.monotonic()
            try:
                self._sender.drain(1.5 if last_round else 10.0, self._end_at if last_round else math.inf)
                if not last_round:
                    self._adopt_orphans()
                backoff.reset()
            except (TransportError, SpoolError) as error:
                self._warn("send", f"events not delivered, they are kept on disk: {error}")
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
            except (TransportError, SpoolError) as error:  # must not delay this agent's own events
                return self._warn("adopt", f"events of a dead process not delivered, they are kept: {error}")
            if not done:
                self._adopt_at = now
                self._written.set()  # this agent's own events first, then the rest
        if now >= self._sweep_at:
            orphans.sweep(self._root, time.time())
            self._sweep_at = now + SWEEP_INTERVAL_SECONDS

    def _wait_before_retry(self, seconds: float) -> None:
        """Wait before the next attempt; while stopping, only until everything is spooled."""
        if self._stopping.wait(seconds):
            self._all_written.wait(seconds)
        self._written.set()

    # -- heartbeat and status --------------------------------------------------------------------

    def _probe_all(self) -> None:
        while not self._stopping.is_set():
            self._probe_requested.clear()
            if self._send_status():
                self._heartbeat_due.set()
            pause = CONFIRM_SECONDS if self.reachability.is_doubtful() else HEARTBEAT_SECONDS
            if self._probe_requested.wait(pause):
                self._stopping.wait(1.0)  # give the query that has just started time to initialize

    def _send_status(self) -> bool:
        """Ask Spark for the status; True if Spark answers again or no longer, or has another number of executors."""
        self.reachability.poll_begins()
        try:
            status = self._probe()
        except Exception as error:
            self._warn("probe", f"Spark did not report the status of its queries: {error}")
            return self.reachability.poll_failed(error)
        self.inbox.put("status", wire.dumps(status))
        before, self._executors = self._executors, status.get("executors")
        return self.reachability.poll_answered() or before != self._executors

    def _send_heartbeats(self) -> None:
        while not self._stopping.is_set():
            self._heartbeat_due.clear()
            self._report_losses()
            self.inbox.put("heartbeat", wire.dumps(self._heartbeat()))
            self._heartbeat_due.wait(HEARTBEAT_SECONDS)

    def _heartbeat(self) -> dict[str, Any]:
        return {
            "uptime": round(time.monotonic() - self._started_at, 1),
            "actions": self.identity.actions,
            "spool": self._spool_state(),
            "dropped": self.losses(),
            "sent_at": time.time(),
            **self._figures(),
            **self.reachability.facts(),
        }

    def _spool_state(self) -> dict[str, Any]:
        if not self._spool_lock.acquire(timeout=1.0):
            return {}  # the disk hangs; the heartbeat is still worth sending
        try:
            spool = self._spool
            return {"events": spool.events, "bytes": spool.bytes, "trouble": spool.trouble}
        finally:
            self._spool_lock.release()

    def losses(self) -> dict[str, int]:
        """Events that never reached the server since the agent started, by reason."""
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
    """A format string for an event line: seq, at, type and data (JSON text that is not parsed again)."""
    app = {k: v for k, v in vars(identity.app).items() if v is not None}
    head = wire.dumps({"v": wire.VERSION, "agent": identity.agent})[:-1].replace("%", "%%")
    tail = wire.dumps({"app": app, "labels": dict(identity.labels)})[1:-1].replace("%", "%%")
    return head + ',"seq":%d,"at":"%s",' + tail + ',"type":"%s","data":%s}'
