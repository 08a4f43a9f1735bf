"""The sender: acknowledged events are deleted, rejected events counted, orphans delivered."""

import os
import threading
import time

import pytest

from listeners.delivery.memory_queue import MemoryQueue
from listeners.delivery.orphans import orphans
from listeners.delivery.sender import EventSender
from listeners.delivery.spool import Spool
from listeners.delivery.transport import ServerAcknowledgement
from listeners.protocol.errors import NoAnswer, SpoolError, TooLarge, TransportError

OWNER = {"app": "orders", "server": "http://localhost:8420"}


class Server:
    def __init__(self, refusal=None, rejects=0, acknowledges=10**9):
        self.refusal, self.rejects, self.lines, self.acknowledges = refusal, rejects, [], acknowledges
        self.sizes = []

    def send(self, lines, timeout):
        self.sizes.append(len(lines))
        refusal = self.refusal(lines) if callable(self.refusal) else self.refusal
        if refusal is not None:
            raise refusal
        self.lines += lines
        return ServerAcknowledgement(self.acknowledges, self.rejects, "label name 'a b'")


def queue(*lines):
    made = MemoryQueue()
    made.append([(seq, line) for seq, line in enumerate(lines, start=1)])
    return made


def left_behind(root, agent="dead", lines=(b"seven",), owner=OWNER, losses=None):
    spool = Spool(root / agent, owner)
    spool.append([(seq, line) for seq, line in enumerate(lines, start=7)])
    spool.save_losses(losses or {})
    spool.close()
    return spool.directory


def test_rejected_lines_are_counted_with_the_reason():
    warned, waiting = [], queue(b"one", b"two")
    sender = EventSender(
        Server(rejects=1), waiting, threading.Lock(), lambda *warning: warned.append(warning)
    )
    sender.drain(1.0)
    assert waiting.events == 0 and sender.lost == {"rejected": 1}
    assert warned == [("rejected", "1 events were rejected: label name 'a b'")]


def test_unreachable_server_leaves_all_events_queued():
    waiting = queue(b"one")
    with pytest.raises(TransportError):
        EventSender(Server(TransportError("away")), waiting, threading.Lock()).drain(1.0)
    assert waiting.events == 1


def test_unacknowledged_events_are_not_deleted():
    waiting = queue(b"one", b"two")
    with pytest.raises(TransportError, match="acknowledged 1 of 2"):
        EventSender(Server(acknowledges=1), waiting, threading.Lock()).drain(1.0)
    assert waiting.events == 2


def test_more_rejections_than_events_count_as_all_events():
    sender = EventSender(Server(rejects=1000), queue(b"one"), threading.Lock())
    sender.drain(1.0)
    assert sender.lost == {"rejected": 1}


def test_one_oversized_event_does_not_shrink_all_later_batches():
    def refuse_poison(lines):
        return TooLarge("413") if b"poison" in lines else None

    server = Server(refuse_poison)
    sender = EventSender(server, queue(b"poison", *[b"fine"] * 999), threading.Lock())
    sender.drain(1.0)
    assert len(server.lines) == 999 and sender.lost == {"too_large": 1}
    assert len(server.sizes) < 25


def test_draining_ends_in_time_with_events_left():
    waiting = queue(*[b"x"] * 1500)
    EventSender(Server(), waiting, threading.Lock()).drain(1.0, until=time.monotonic() - 1)
    assert waiting.events == 1500


def test_orphans_are_delivered_and_deleted_or_kept_for_later(tmp_path):
    left_behind(tmp_path)
    away = EventSender(Server(TransportError("away")), queue(), threading.Lock())
    with pytest.raises(TransportError):
        away.adopt(tmp_path, OWNER)
    assert [spool.directory.name for spool in closed(orphans(tmp_path, None))] == ["dead"]
    server = Server()
    assert EventSender(server, queue(), threading.Lock()).adopt(tmp_path, OWNER)
    assert server.lines == [b"seven"] and not (tmp_path / "dead").exists()


def test_refused_orphan_of_another_application_is_kept_and_does_not_stop_the_others(tmp_path):
    left_behind(tmp_path, "first", lines=(b"clicks",), owner=dict(OWNER, app="clicks"))
    left_behind(tmp_path, "own")
    left_behind(tmp_path, "last", lines=(b"views",), owner=dict(OWNER, app="views"))
    for place, name in enumerate(("first", "own", "last")):
        for path in (*(tmp_path / name).glob("*"), tmp_path / name):
            os.utime(path, (place, place))
    warned = []
    bound = Server(lambda lines: TransportError("403") if lines == [b"clicks"] else None)
    sender = EventSender(bound, queue(), threading.Lock(), lambda *warning: warned.append(warning))
    assert sender.adopt(tmp_path, OWNER)
    assert bound.lines == [b"seven", b"views"] and warned == [("adopt", "events of clicks are kept: 403")]
    assert [spool.directory.name for spool in closed(orphans(tmp_path, None))] == ["first"]


def test_server_that_is_away_is_asked_for_the_first_orphan_only(tmp_path):
    for name in ("first", "second"):
        left_behind(tmp_path, name, owner=dict(OWNER, app=name))
    away = Server(NoAnswer("away"))
    with pytest.raises(NoAnswer):
        EventSender(away, queue(), threading.Lock()).adopt(tmp_path, OWNER)
    assert len(away.sizes) == 1 and len(list(closed(orphans(tmp_path, None)))) == 2


def test_malformed_events_of_another_application_do_not_keep_its_orphan(tmp_path):
    left_behind(tmp_path, owner=dict(OWNER, app="clicks"))
    sender = EventSender(Server(rejects=1), queue(), threading.Lock())
    assert sender.adopt(tmp_path, OWNER)
    assert sender.lost == {"rejected": 1} and not (tmp_path / "dead").exists()


def test_losses_of_an_orphan_are_reported_once_by_its_adopter(tmp_path):
    directory = left_behind(tmp_path, lines=(b"seven", b"eight", b"nine"), losses={"queue_full": 4})
    path = next(directory.glob("*.events"))
    path.write_bytes(path.read_bytes().replace(b"eight", b"EIGHT"))
    turns = iter([None])

    def refuse_second(lines):
        return TransportError("away") if next(turns, "away") else None

    sender = EventSender(Server(refuse_second), queue(), threading.Lock())
    sender.adopt(tmp_path, OWNER)
    assert sender.lost == {"queue_full": 4, "corrupt_record": 1}
    assert sender.adopt(tmp_path, OWNER) and sum(sender.lost.values()) == 5


def test_losses_stay_with_an_undelivered_orphan(tmp_path):
    directory = left_behind(tmp_path, lines=[b"%d" % n for n in range(900)], losses={"queue_full": 4})
    path = next(directory.glob("*.events"))
    path.write_bytes(path.read_bytes().replace(b" 12 5\n", b" 12 6\n"))
    answers = iter([None])

    def refuse_second(lines):
        return next(answers, TransportError("away"))

    sender = EventSender(Server(refuse_second), queue(), threading.Lock())
    with pytest.raises(TransportError):
        sender.adopt(tmp_path, OWNER)
    assert sender.lost == {}
    later = EventSender(Server(), queue(), threading.Lock())
    later.adopt(tmp_path, OWNER)
    assert later.lost == {"queue_full": 4, "corrupt_record": 1}


def test_long_adoption_ends_in_time_and_continues_later(tmp_path):
    left_behind(tmp_path, "one")
    left_behind(tmp_path, "two")
    server = Server()
    sender = EventSender(server, queue(), threading.Lock())
    assert not sender.adopt(tmp_path, OWNER, until=time.monotonic())
    assert sender.adopt(tmp_path, OWNER) and server.lines == [b"seven", b"seven"]


def test_unreadable_disk_is_a_temporary_error(tmp_path, monkeypatch):
    spool = Spool(tmp_path / "agent", OWNER)
    spool.append([(1, b"one")])
    next(spool.directory.glob("*.events")).chmod(0)

    def refuse(*args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("listeners.delivery.segments.read_lines", refuse)
    server = Server()
    with pytest.raises(SpoolError):
        EventSender(server, spool, threading.Lock()).drain(1.0)
    monkeypatch.undo()
    EventSender(server, spool, threading.Lock()).drain(1.0)
    assert server.lines == [b"one"]
    spool.close()


def closed(spools):
    for spool, _ in spools:
        spool.close()
        yield spool
