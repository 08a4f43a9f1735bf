"""`attach` never raises into the program."""

import logging
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from listeners import attach
from tests.paths import ROOT


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

    ending = False

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


TWO_ENDS = """
import os, signal, threading
from listeners import attach, attachment
from tests.unit.listeners.test_attachment import HangingEngine, Session
engine, session = HangingEngine(), Session()
attachment.engine_of, attachment.REMOVAL_SECONDS = lambda session: engine, 0.3
attached = attach.attach(session, server="http://127.0.0.1:9")
"""


@pytest.mark.parametrize(
    ("body", "exit_code"),
    [
        # The JVM's shutdown hook reports on a thread of its own while the program's last line is executed.
        (
            "threading.Thread(target=attached.detach, args=['sigterm'], daemon=True).start()\n"
            "engine.asked.wait()",
            0,
        ),
        # A pod ends while the program stops its session.
        (
            "terminate = lambda: (engine.asked.wait(), os.kill(os.getpid(), signal.SIGTERM))\n"
            "threading.Thread(target=terminate, daemon=True).start()\n"
            "attached.detach('session_stopped')",
            -signal.SIGTERM,
        ),
    ],
    ids=["exit during a report of SIGTERM", "SIGTERM during a report of the exit"],
)
def test_process_does_not_end_while_its_end_is_being_reported(body, exit_code, tmp_path):
    environ = {"PYTHONPATH": str(ROOT), "CONTROLPLANE_SPOOL_DIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", TWO_ENDS + body], env=environ, check=False)
    assert ended.returncode == exit_code
    assert any(b'"app_ended"' in path.read_bytes() for path in tmp_path.rglob("*.events"))


def test_session_that_begins_while_the_agent_ends_gets_an_agent_of_its_own(monkeypatch):
    monkeypatch.setattr(attach, "Attachment", Made)
    monkeypatch.setattr(attach, "_current", None)
    first = attach.attach(SimpleNamespace(app="local-1"))
    first.ending = True
    assert attach.current() is None
    second = attach.attach(SimpleNamespace(app="local-1"))
    assert second is not first and attach.current() is second
