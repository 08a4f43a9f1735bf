"""The command poller: limited threads, no busy loop, each command executed once."""

import threading
import time

import pytest

from listeners.commands import command_poller as poller
from listeners.commands.command_poller import MAX_CONCURRENT_COMMANDS, CommandPoller
from listeners.protocol.errors import TransportError
from listeners.protocol.wire import Command, CommandResult


class Server:
    def __init__(self, *polls):
        self.polls, self.asked, self.answers = list(polls), 0, []

    def poll(self, agent, wait):
        self.asked += 1
        return self.polls.pop(0) if self.polls else []

    def answer(self, command_id, result):
        self.answers.append(command_id)


def run(server, execute, seconds, until=lambda: False):
    stopping = threading.Event()
    poller = CommandPoller(server, "agent", execute, stopping)
    thread = threading.Thread(target=poller.poll, daemon=True)
    thread.start()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not until():
        time.sleep(0.01)
    stopping.set()
    thread.join(5)
    assert not thread.is_alive()


def test_thousand_commands_use_limited_threads():
    go, begun = threading.Event(), []

    def execute(command):
        begun.append(command.id)
        go.wait(10)
        return CommandResult("succeeded")

    run(Server([Command(str(n), "stop", "q") for n in range(1000)]), execute, 0.2)
    go.set()
    assert len(begun) == MAX_CONCURRENT_COMMANDS


def test_server_that_answers_at_once_is_not_polled_in_a_busy_loop():
    server = Server()
    run(server, lambda command: CommandResult("succeeded"), 0.3)
    assert server.asked == 1


def test_failed_result_delivery_is_retried():
    class Deaf(Server):
        def answer(self, command_id, result):
            super().answer(command_id, result)
            if len(self.answers) < 2:
                raise TransportError("away", retry_after=0.01)

    server = Deaf([Command("c1", "stop", "q")])
    run(server, lambda command: CommandResult("succeeded"), 20.0, lambda: len(server.answers) == 2)
    assert server.answers == ["c1", "c1"]


class Clock:
    """`time` for a poll during which the process was suspended."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, *moments):
        self._moments = list(moments)

    def time(self):
        return self._moments.pop(0) if self._moments else 1e9


@pytest.mark.parametrize(("slept", "carried_out"), [(3600.0, ["c1"]), (1.0, ["c0", "c1"])])
def test_commands_from_before_a_suspension_wait_for_redelivery(monkeypatch, slept, carried_out):
    monkeypatch.setattr(poller, "time", Clock(1000.0, 1000.0 + slept))
    begun, both = [], threading.Event()

    def execute(command):
        begun.append(command.id)
        if command.id == "c1":
            both.set()
        return CommandResult("succeeded")

    server = Server([Command("c0", "stop", "q")], [Command("c1", "stop", "q")])
    stopping = threading.Event()
    thread = threading.Thread(target=CommandPoller(server, "agent", execute, stopping).poll, daemon=True)
    thread.start()
    assert both.wait(10)
    stopping.set()
    thread.join(5)
    assert begun == carried_out


def test_command_redelivered_while_running_is_not_started_again():
    go, begun, answered = threading.Event(), [], threading.Event()

    class Insistent(Server):
        def poll(self, agent, wait):
            self.asked += 1
            if self.asked > 2:
                go.set()
            if len(self.answers) > 1:
                answered.set()
            return [Command("c1", "restart", "q")]

    def execute(command):
        begun.append(command.id)
        assert go.wait(10)
        return CommandResult("succeeded", code=str(len(begun)))

    stopping = threading.Event()
    thread = threading.Thread(target=CommandPoller(Insistent(), "agent", execute, stopping).poll, daemon=True)
    thread.start()
    assert answered.wait(10)  # after its end it is only answered again
    stopping.set()
    thread.join(5)
    assert begun == ["c1"]


def test_undeliverable_results_do_not_accumulate_threads():
    class Deaf(Server):
        def answer(self, command_id, result):
            raise TransportError("away", retry_after=30.0)

    server = Deaf(*[[Command(f"{poll}-{n}", "stop", "q") for n in range(10)] for poll in range(20)])
    stopping = threading.Event()
    done = []
    poller = CommandPoller(
        server, "agent", lambda command: done.append(command.id) or CommandResult("succeeded"), stopping
    )
    for _ in range(20):
        for command in server.poll("agent", 0):
            poller._accept(command)
    assert sum(t.name == "controlplane-command" for t in threading.enumerate()) <= MAX_CONCURRENT_COMMANDS
    assert len(done) <= MAX_CONCURRENT_COMMANDS
    stopping.set()


def test_failing_command_is_answered_as_failed_and_prints_nothing(capfd):
    class Kept(Server):
        def answer(self, command_id, result):
            self.answers.append(result)

    def execute(command):
        raise SystemExit("secret")

    server = Kept([Command("c1", "stop", "q")])
    run(server, execute, 20.0, lambda: server.answers)
    assert [(r.state, r.code) for r in server.answers] == [("failed", "agent_error")]
    assert "Traceback" not in capfd.readouterr().err


def test_commands_received_after_stop_are_left_to_the_next_agent():
    stopping, begun = threading.Event(), []

    class Late(Server):
        def poll(self, agent, wait):
            stopping.set()  # during the poll
            return [Command("c1", "stop", "q")]

    server = Late()
    CommandPoller(server, "agent", lambda command: begun.append(command.id), stopping).poll()
    for thread in threading.enumerate():
        if thread.name == "controlplane-command":
            thread.join(5)
    assert begun == [] and server.answers == []
