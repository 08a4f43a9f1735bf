"""Delivery: what is acknowledged is gone, what is refused is counted, orphans come home."""

import threading

import pytest

from listeners.delivery import Delivery
from listeners.errors import TransportError
from listeners.spool import MemoryQueue, open_spool, orphans
from listeners.transport import Acknowledgement

OWNER = {"app": "orders"}


class Server:
    def __init__(self, refusal=None, rejects=0):
        self.refusal, self.rejects, self.lines = refusal, rejects, []

    def send(self, lines, timeout):
        if self.refusal is not None:
            raise self.refusal
        self.lines += lines
        return Acknowledgement(0, self.rejects, "label name 'a b'")


def queue(*lines):
    made = MemoryQueue()
    made.append([(seq, line) for seq, line in enumerate(lines, start=1)])
    return made


def test_lines_that_the_server_rejects_are_counted_with_its_reason():
    warned, waiting = [], queue(b"one", b"two")
    delivery = Delivery(Server(rejects=1), waiting, threading.Lock(), lambda *words: warned.append(words))
    delivery.drain(1.0)
    assert waiting.events == 0 and delivery.lost == {"rejected": 1}
    assert warned == [("rejected", "1 events were rejected: label name 'a b'")]


def test_a_server_that_is_away_leaves_everything_where_it_is():
    waiting = queue(b"one")
    with pytest.raises(TransportError):
        Delivery(Server(TransportError("away")), waiting, threading.Lock()).drain(1.0)
    assert waiting.events == 1


def test_orphans_are_delivered_and_deleted_or_left_for_the_next_try(tmp_path):
    left = open_spool(tmp_path, "dead", OWNER)
    left.append([(7, b"seven")])
    left.close()
    away = Delivery(Server(TransportError("away")), queue(), threading.Lock())
    with pytest.raises(TransportError):
        away.adopt(tmp_path, OWNER)
    assert [orphan.directory.name for orphan in closed(orphans(tmp_path, OWNER))] == ["dead"]
    server = Server()
    Delivery(server, queue(), threading.Lock()).adopt(tmp_path, OWNER)
    assert server.lines == [b"seven"] and not (tmp_path / "dead").exists()


def closed(spools):
    for spool in spools:
        spool.close()
        yield spool
