"""Poll the server for commands, execute each command once and deliver its result.

`listeners.agent` runs the poll on a thread of its own. Each command gets another thread, never one of
Spark's.
"""

from __future__ import annotations

import threading
import time
from typing import Callable

from listeners.delivery.backoff import Backoff
from listeners.delivery.sender import Warn
from listeners.delivery.transport import Transport
from listeners.protocol import wire
from listeners.protocol.errors import TransportError

POLL_SECONDS = 25.0
#: Results kept, so that a command that is delivered twice is executed once.
MAX_RESULTS = 200
MAX_CONCURRENT_COMMANDS = 16
MAX_ANSWER_ATTEMPTS = 20

#: No poll takes longer. If the clock shows more, the process or the machine was suspended meanwhile.
MAX_POLL_SECONDS = POLL_SECONDS + 15.0

Execute = Callable[[wire.Command], wire.CommandResult]


def is_fresh(asked_at: float, now: float) -> bool:
    """Whether a poll's answer is current (Unix seconds). If not, drop it: the server sends commands again.

    Otherwise a driver that was suspended would execute commands from hours ago.
    """
    return now - asked_at <= MAX_POLL_SECONDS


class CommandPoller:
    """Polls until `stopping` is set. `after_command` is called after each executed command."""

    def __init__(
        self,
        transport: Transport,
        agent: str,
        execute: Execute,
        stopping: threading.Event,
        after_command: Callable[[], None] = lambda: None,
        warn: Warn = lambda kind, message: None,
    ):
        self._transport, self._agent, self._execute = transport, agent, execute
        self._stopping, self._after_command, self._warn = stopping, after_command, warn
        self._results: dict[str, wire.CommandResult | None] = {}
        self._in_progress: set[str] = set()
        self._lock = threading.Lock()

    def poll(self) -> None:
        """Poll and execute commands until `stopping` is set. For a thread of its own."""
        backoff = Backoff()
        while not self._stopping.is_set():
            started_at, asked_at = time.monotonic(), time.time()
            try:
                commands = self._transport.poll(self._agent, POLL_SECONDS)
                backoff.reset()
            except TransportError as error:
                self._warn("poll", f"cannot poll for commands: {error}")
                self._stopping.wait(backoff.next(error.retry_after))
                continue
            if self._stopping.is_set():
                return  # detached meanwhile: the server delivers these commands to the next agent
            for command in commands if is_fresh(asked_at, time.time()) else []:
                self._accept(command)
            # A server that does not hold the poll must not cause a busy loop.
            if time.monotonic() - started_at < 1.0:
                self._stopping.wait(0.2 if commands else 1.0)

    def _accept(self, command: wire.Command) -> None:
        with self._lock:
            known = command.id in self._results
            result = self._results.get(command.id)
            # Being executed or answered: both occupy a thread.
            if command.id in self._in_progress or len(self._in_progress) >= MAX_CONCURRENT_COMMANDS:
                return  # in progress, or too many at once: the server delivers it again
            self._in_progress.add(command.id)
            if not known:
                self._results[command.id] = None
                self._forget_oldest()
        thread = threading.Thread(
            target=self._run, args=(command, result), name="controlplane-command", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the process cannot start a thread
            self._release(command, known)
            raise

    def _release(self, command: wire.Command, known: bool) -> None:
        with self._lock:
            self._in_progress.discard(command.id)
            if not known:
                self._results.pop(command.id, None)

    def _forget_oldest(self) -> None:
        done = [command_id for command_id, result in self._results.items() if result is not None]
        for command_id in done[: max(0, len(self._results) - MAX_RESULTS)]:
            del self._results[command_id]

    def _run(self, command: wire.Command, result: wire.CommandResult | None) -> None:
        try:
            if result is None:
                result = self._execute_safely(command)
                with self._lock:
                    self._results[command.id] = result
                self._after_command()
            self._answer(command, result)
        finally:
            with self._lock:
                self._in_progress.discard(command.id)

    def _execute_safely(self, command: wire.Command) -> wire.CommandResult:
        try:
            return self._execute(command)
        except BaseException as error:  # also SystemExit, from a user's factory: this thread is the agent's
            self._warn("command", f"internal error in the {command.action} of {command.query_id}: {error!r}")
            return wire.CommandResult(
                "failed", f"internal error of the agent: {type(error).__name__}", "agent_error"
            )

    def _answer(self, command: wire.Command, result: wire.CommandResult) -> None:
        backoff = Backoff()
        for _ in range(MAX_ANSWER_ATTEMPTS):
            try:
                self._transport.answer(command.id, result)
                return
            except TransportError as error:
                if not error.retryable or self._stopping.wait(backoff.next(error.retry_after)):
                    return
