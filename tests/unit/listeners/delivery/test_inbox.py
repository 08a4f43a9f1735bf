"""The inbox: bounded, never blocking, counting dropped items."""

import threading

from listeners.delivery.inbox import Inbox


def test_items_come_out_in_order_with_their_time():
    inbox = Inbox(clock=lambda: 5.0)
    inbox.put("a", "1")
    inbox.put("b", "2", at=7.0)
    assert [tuple(item) for item in inbox.take(0)] == [("a", 5.0, "1"), ("b", 7.0, "2")]
    assert inbox.take(0) == []


def test_oldest_item_is_dropped_and_counted_when_full():
    inbox = Inbox(max_items=2)
    for data in "123":
        inbox.put("a", data)
    assert [item.data for item in inbox.take(0)] == ["2", "3"]
    assert inbox.lost == {"queue_full": 1}


def test_bytes_are_limited_but_one_item_always_fits():
    inbox = Inbox(max_bytes=10)
    inbox.put("a", "x" * 8)
    inbox.put("a", "y" * 80)
    assert [item.data[0] for item in inbox.take(0)] == ["y"]


def test_waiting_reader_wakes_on_an_item_and_on_close():
    inbox = Inbox()
    threading.Timer(0.05, inbox.put, ("a", "1")).start()
    assert inbox.take(30)
    threading.Timer(0.05, inbox.close).start()
    assert inbox.take(30) == []
    inbox.put("a", "2")
    assert inbox.take(0) == []
