"""The person of a session: who may see the pages, with which role, and what the server is sent."""

from __future__ import annotations

import pytest

from ui.kit import cached_reads, sign_in
from ui.kit.answers import TokenRefused
from ui.kit.sign_in import SESSION_SECONDS, Person

TOKEN = {"name": "dashboard", "role": "operator", "may_impersonate": True}


def signed_in(monkeypatch: pytest.MonkeyPatch, person: Person | None) -> None:
    monkeypatch.setenv(sign_in.AUTH_FILE, "auth.toml")
    monkeypatch.setattr(sign_in, "person", lambda: person)


def test_without_a_log_in_the_token_acts_as_itself() -> None:
    assert sign_in.mode({}) == ""
    assert sign_in.is_admitted()
    assert sign_in.request_headers() == {}
    assert sign_in.effective_role(TOKEN) == "operator"
    assert sign_in.effective_role({}) is None


@pytest.mark.parametrize(
    ("role", "token", "effective"),
    [
        ("admin", TOKEN, "operator"),
        ("viewer", TOKEN, "viewer"),
        ("operator", {**TOKEN, "may_impersonate": False}, "viewer"),
        ("operator", {}, "operator"),  # the server decides
        ("none", TOKEN, "none"),
    ],
)
def test_a_person_has_at_most_the_role_of_the_token(
    monkeypatch: pytest.MonkeyPatch, role: str, token: dict[str, object], effective: str
) -> None:
    signed_in(monkeypatch, Person("ada", role))
    assert sign_in.effective_role(token) == effective
    assert sign_in.is_admitted() == (role != "none")


def test_a_request_names_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    signed_in(monkeypatch, Person("Jörg\n", "operator"))
    headers = {"Impersonate-User": "J%C3%B6rg%0A", "Impersonate-Role": "operator"}
    assert sign_in.request_headers() == headers


@pytest.mark.parametrize("person", [None, Person("nils", "none")])
def test_nobody_reads_or_changes_anything(monkeypatch: pytest.MonkeyPatch, person: Person | None) -> None:
    signed_in(monkeypatch, person)
    monkeypatch.setattr(cached_reads, "connection", lambda: pytest.fail("a request was sent"))
    assert not sign_in.is_admitted()
    for reading in (cached_reads.fleet(), cached_reads.action("a"), cached_reads.past_events("q", 1e6)):
        assert (reading.body, reading.kind) == (None, "log-in")
    with pytest.raises(TokenRefused):
        sign_in.request_headers()


def test_a_log_in_ends_after_its_time() -> None:
    assert sign_in.is_recent({"iat": 1000}, 1000 + SESSION_SECONDS - 1)
    assert not sign_in.is_recent({"iat": 1000}, 1000 + SESSION_SECONDS)
    assert not sign_in.is_recent({}, 0)
