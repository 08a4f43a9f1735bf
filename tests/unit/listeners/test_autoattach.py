"""Attaching without a change to the program: once for each application."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from listeners import autoattach


class Session:
    def __init__(self, context: Any = None):
        if context is not None:
            self._sc = context


class Context:
    pass


class Attaching:
    """Replaces `listeners.attach` and counts calls."""

    def __init__(self, refuse: bool = False):
        self.sessions: list[Any] = []
        self.attachment: Any = None
        self.refuse = refuse

    def current(self) -> Any:
        return self.attachment

    def attach(self, session: Any) -> Any:
        self.sessions.append(session)
        if not self.refuse:
            self.attachment = type("Attachment", (), {"exception": None})()
        return self.attachment


@pytest.fixture
def attaching(monkeypatch: pytest.MonkeyPatch) -> Attaching:
    made = Attaching()
    monkeypatch.setattr(autoattach, "attaching", made)
    monkeypatch.setattr(sys, "excepthook", lambda *failure: None)
    return made


def test_session_is_attached_once(attaching: Attaching) -> None:
    session = Session(Context())
    assert [autoattach.joined(session) for _ in range(3)] == [True, False, False]
    assert attaching.sessions == [session]


def test_further_session_joins_the_existing_agent(attaching: Attaching) -> None:
    context = Context()
    first, second = Session(context), Session(context)
    assert [autoattach.joined(first), autoattach.joined(second)] == [True, False]
    assert attaching.sessions == [first, second]


def test_a_detached_program_is_not_followed_until_its_next_application(
    attaching: Attaching,
) -> None:
    context, next_context = Context(), Context()
    autoattach.joined(Session(context))
    attaching.attachment = None
    assert autoattach.joined(Session(context)) is False
    assert autoattach.joined(Session(next_context)) is True


def test_failed_application_is_not_tried_again(attaching: Attaching) -> None:
    attaching.refuse, context = True, Context()
    assert [autoattach.joined(Session(context)) for _ in range(3)] == [False] * 3
    assert len(attaching.sessions) == 1


def test_session_without_a_context_stands_for_itself(attaching: Attaching) -> None:
    assert autoattach.joined(Session()) is True


def test_uncaught_exception_is_recorded_and_printed(
    attaching: Attaching, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[Any] = []
    monkeypatch.setattr(sys, "excepthook", lambda *failure: printed.append(failure[1]))
    autoattach.joined(Session(Context()))
    error = ValueError("poison")
    sys.excepthook(ValueError, error, None)
    assert printed == [error] and attaching.attachment.exception == "ValueError: poison"
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert attaching.attachment.exception == "ValueError: poison"


class TextlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_exception_without_a_text_is_recorded_by_its_name(
    attaching: Attaching, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[Any] = []
    monkeypatch.setattr(sys, "excepthook", lambda *failure: printed.append(failure[0]))
    autoattach.joined(Session(Context()))
    sys.excepthook(TextlessError, TextlessError(), None)
    assert printed == [TextlessError] and attaching.attachment.exception == "TextlessError"


def test_exception_whose_text_hangs_is_printed_without_delay(
    attaching: Attaching, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed, released = threading.Event(), threading.Event()

    def hangs(error: BaseException) -> str:
        assert printed.is_set() and released.wait(20)
        return "late"

    monkeypatch.setattr(sys, "excepthook", lambda *failure: printed.set())
    monkeypatch.setattr(autoattach.causes, "text_of", hangs)
    monkeypatch.setattr(autoattach, "EXCEPTION_TEXT_SECONDS", 0.05)
    autoattach.joined(Session(Context()))
    sys.excepthook(ValueError, ValueError("poison"), None)
    assert attaching.attachment.exception == "ValueError"
    released.set()


def test_two_applications_of_one_process_share_one_hook(attaching: Attaching) -> None:
    autoattach.joined(Session(Context()))
    hook = sys.excepthook
    attaching.attachment = None
    autoattach.joined(Session(Context()))
    assert sys.excepthook is hook
