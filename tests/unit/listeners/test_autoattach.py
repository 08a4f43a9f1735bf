"""Attaching without a change to the program: once for each application."""

from __future__ import annotations

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
