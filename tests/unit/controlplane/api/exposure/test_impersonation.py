"""Which token acts for a person, and with which role. Over HTTP: tests/acceptance/test_roles.py."""

import pytest

from controlplane.api.exposure.impersonation import impersonated
from controlplane.errors import BadRequest, Forbidden
from controlplane.model import Role
from controlplane.runtime.tokens import Token, issue


def token(role: Role, may_impersonate: bool = True) -> Token:
    return issue("dashboard", role, 0.0, may_impersonate=may_impersonate)[1]


def test_a_request_without_a_person_is_the_tokens_own() -> None:
    own = token(Role.ADMIN)
    assert impersonated(own, {}) is own
    assert (own.actor(), own.actor("ada")) == ("dashboard", "ada")
    assert token(Role.ADMIN, may_impersonate=False).actor("ada") == "dashboard"


def test_the_person_counts_more_than_what_the_body_states() -> None:
    acting = impersonated(token(Role.OPERATOR), {"impersonate-user": "ada"})
    assert (acting.actor("bob"), acting.role, acting.name) == ("ada", Role.OPERATOR, "dashboard")


def test_a_role_without_a_person_and_a_hidden_character_are_refused() -> None:
    for headers in (
        {"impersonate-role": "viewer"},
        {"impersonate-user": "a%00"},
        {"impersonate-user": "%20"},
    ):
        with pytest.raises(BadRequest):
            impersonated(token(Role.ADMIN), headers)


def test_any_of_the_headers_needs_the_right() -> None:
    for headers in ({"impersonate-role": "viewer"}, {"impersonate-user": "ada"}):
        with pytest.raises(Forbidden):
            impersonated(token(Role.ADMIN, may_impersonate=False), headers)
