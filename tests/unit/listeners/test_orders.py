"""Orders: a server that misbehaves makes neither a flood of threads nor a busy loop."""

import threading
import time

from listeners.errors import TransportError
from listeners.orders import MOST_AT_ONCE, Orders
from listeners.wire import Command, CommandResult


class Server:
    def __init__(self, *polls):
        self.polls, self.asked, self.answers = list(polls), 0, []

    def poll(self, agent, wait):
        self.asked += 1
        return self.polls.pop(0) if self.polls else []

    def answer(self, command_id, result):
        self.answers.append(command_id)


def run(server, execute, seconds):
    stopping = threading.Event()
    orders = Orders(server, "agent", execute, stopping)
    thread = threading.Thread(target=orders.poll, daemon=True)
    thread.start()
    time.sleep(seconds)
    stopping.set()
    thread.join(5)
    assert not thread.is_alive()


def test_a_thousand_commands_at_once_make_only_so_many_threads():
    go, begun = threading.Event(), []

    def execute(command):
        begun.append(command.id)
        go.wait(10)
        return CommandResult("succeeded")

    run(Server([Command(str(n), "stop", "q") for n in range(1000)]), execute, 0.2)
    go.set()
    assert len(begun) == MOST_AT_ONCE


def test_a_server_that_answers_at_once_is_not_asked_again_at_once():
    server = Server()
    run(server, lambda command: CommandResult("succeeded"), 0.3)
    assert server.asked == 1


def test_an_answer_that_cannot_be_delivered_is_tried_again():
    class Deaf(Server):
        def answer(self, command_id, result):
            super().answer(command_id, result)
            if len(self.answers) < 2:
                raise TransportError("away", retry_after=0.01)

    server = Deaf([Command("c1", "stop", "q")])
    run(server, lambda command: CommandResult("succeeded"), 0.5)
    assert server.answers == ["c1", "c1"]
