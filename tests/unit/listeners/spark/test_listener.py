"""The raw listener: one call for each event, and no exception leaves a callback."""

from listeners.delivery.inbox import Inbox
from listeners.spark.listener import RawListener


class Event:
    def __init__(self, text):
        self._text, self.calls = text, 0

    def progress(self):
        return self

    def json(self):
        self.calls += 1
        if isinstance(self._text, BaseException):
            raise self._text
        return self._text


def test_every_event_type_is_put_into_the_inbox_unchanged():
    inbox, observed = Inbox(), []
    listener = RawListener(inbox, lambda type, data: observed.append((type, data)))
    listener.onQueryStarted(Event('{"s":1}'))
    listener.onQueryProgress(Event('{"p":1}'))
    listener.onQueryIdle(Event('{"i":1}'))
    listener.onQueryTerminated(Event('{"t":1}'))
    expected = [
        ("started", '{"s":1}'),
        ("progress", '{"p":1}'),
        ("idle", '{"i":1}'),
        ("terminated", '{"t":1}'),
    ]
    assert observed == expected and [(i.type, i.data) for i in inbox.take(0)] == expected
    assert listener.figures.read()["count"] == 4


def test_unreadable_event_is_counted_and_not_raised():
    inbox = Inbox()
    listener = RawListener(inbox)
    listener.onQueryProgress(Event(RuntimeError("gone")))
    listener.onQueryProgress(Event(SystemExit()))
    assert inbox.take(0) == [] and inbox.lost == {"callback_error": 2}


def test_older_spark_without_event_json_is_read_field_by_field():
    class Old:
        def id(self):
            return "q1"

        def runId(self):
            return "r1"

        def name(self):
            return None

        def timestamp(self):
            return "2026-01-01T00:00:00.000Z"

    inbox = Inbox()
    RawListener(inbox).onQueryStarted(Old())
    assert '"runId":"r1"' in inbox.take(0)[0].data


def test_maximum_callback_time_is_reset_by_reading():
    listener = RawListener(Inbox())
    listener.onQueryProgress(Event("{}"))
    assert listener.figures.read()["seconds_max"] >= 0
    assert listener.figures.read()["seconds_max"] == 0.0
