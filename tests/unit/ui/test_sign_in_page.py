"""What the line about the person warns of."""

from typing import Any

import pytest

from ui import sign_in_page
from ui.kit.sign_in import Person

ADMIN: dict[str, Any] = {"name": "local admin", "role": "admin", "may_impersonate": True}


@pytest.mark.parametrize(
    ("token", "person", "address", "part"),
    [
        (ADMIN, None, "127.0.0.1", ""),
        (ADMIN, None, "0.0.0.0", "Everybody who reaches this address"),
        ({**ADMIN, "role": "viewer"}, None, "0.0.0.0", ""),
        ({}, None, "0.0.0.0", ""),
        (ADMIN, Person("ada", "operator"), "0.0.0.0", ""),
        ({**ADMIN, "may_impersonate": False}, Person("ada", "operator"), "0.0.0.0", "--may-impersonate"),
        ({**ADMIN, "may_impersonate": False}, Person("ada", "viewer"), "0.0.0.0", ""),
    ],
)
def test_the_page_warns_of_what_is_open_or_cannot_work(
    token: dict[str, Any], person: Person | None, address: str, part: str
) -> None:
    found = sign_in_page.warning(token, person, address)
    assert part in found
    assert bool(part) == bool(found)


def test_the_line_names_whose_token_it_is() -> None:
    assert sign_in_page.token_sentence(ADMIN) == "No log-in: everybody here acts as local admin (admin)"
