"""`attach` never raises into the program."""

import logging
from types import SimpleNamespace

from listeners import attach


def test_failed_attach_is_one_log_line(caplog):
    with caplog.at_level(logging.WARNING):
        attachment = attach.attach(object())
    assert not attachment
    assert "not attached" in caplog.text and "object is not a SparkSession" in caplog.text


def test_stand_in_lets_the_program_run_unchanged():
    attachment = attach.NotAttached()

    @attachment.factory("orders")
    def build():
        return "built"

    assert build() == "built"
    attachment.detach()


class Made:
    """Replaces an Attachment to the application of its session."""

    def __init__(self, session, *others):
        self.app, self._on_end, self.ended, self.sessions = session.app, others[-1], None, [session]

    def start(self, session):
        assert session is self.sessions[0]

    def is_of(self, session):
        return session.app == self.app

    def add_session(self, session):
        self.sessions.append(session)

    def detach(self, reason="exit", timeout=2.0):
        self.ended = reason
        self._on_end(self)


def test_session_of_another_application_replaces_the_old_agent(monkeypatch):
    monkeypatch.setattr(attach, "Attachment", Made)
    monkeypatch.setattr(attach, "_current", None)
    first = attach.attach(SimpleNamespace(app="local-1"))
    assert attach.attach(SimpleNamespace(app="local-1")) is first and len(first.sessions) == 2
    second = attach.attach(SimpleNamespace(app="local-2"))
    assert second is not first and second.app == "local-2" and attach.current() is second
    assert first.ended == "session_stopped"
