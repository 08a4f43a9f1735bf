"""Role map: which role and name follow from a person's claims."""

from pathlib import Path
from typing import Any

import pytest

from ui.kit import role_map
from ui.kit.role_map import RoleMap, RoleMapError, lower

ROLES = RoleMap(default="none", roles={"oncall": "operator", "admins": "admin", "all": "viewer"})


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"groups": ["all", "oncall"]}, "operator"),  # the highest
        ({"groups": "admins"}, "admin"),
        ({"groups": ["Oncall", "oncall "]}, "operator"),  # exact but for space
        ({"groups": ["other"]}, "none"),
        ({"groups": [["admins"], 5, None, {"admins": 1}]}, "none"),
        ({}, "none"),
    ],
)
def test_the_highest_role_of_the_groups_counts(claims: dict[str, Any], role: str) -> None:
    assert ROLES.role_of(claims) == role


def test_a_claim_may_lie_inside_another_or_have_dots_in_its_name() -> None:
    nested = RoleMap("realm_access.roles", default="none", roles={"sre": "operator"})
    assert nested.role_of({"realm_access": {"roles": ["sre"]}}) == "operator"
    assert nested.role_of({"realm_access": ["sre"]}) == "none"
    named = RoleMap("https://corp.example/roles", default="none", roles={"sre": "operator"})
    assert named.role_of({"https://corp.example/roles": ["sre"]}) == "operator"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": "a@b.c", "sub": "1"}, "a@b.c"),
        ({"email": "boss@b.c", "email_verified": False, "sub": "1"}, "1"),  # anybody can enter it
        ({"preferred_username": "ada", "sub": "1"}, "ada"),
        ({"sub": "a\nb\u202e" + "x" * 300}, ("a b " + "x" * 300)[:200]),
        ({"sub": " "}, ""),
    ],
)
def test_a_person_is_named_by_a_claim_that_nobody_else_can_have(claims: dict[str, Any], name: str) -> None:
    assert RoleMap().name_of(claims) == name


def test_a_file_maps_groups_and_refuses_everybody_else(tmp_path: Path) -> None:
    file = tmp_path / "roles.toml"
    file.write_text('name = "sub"\n[roles]\n"a b" = "admin"\n')
    loaded = role_map.load(file)
    assert loaded == RoleMap("groups", "sub", "none", {"a b": "admin"})
    assert role_map.load(None).role_of({}) == "viewer"


@pytest.mark.parametrize(
    "text", ["[roles]\na = 'root'", "default = 'agent'", "role = 'x'", "claim = 5", "= 1"]
)
def test_a_mistake_names_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "roles.toml"
    file.write_text(text)
    with pytest.raises(RoleMapError, match=r"roles\.toml: "):
        role_map.load(file)
    with pytest.raises(RoleMapError, match="No such file"):
        role_map.load(tmp_path / "none.toml")


def test_the_lowest_known_role_counts() -> None:
    assert lower("admin", None, "viewer") == "viewer"
    assert lower("operator", "none") == "none"
    assert lower(None) is None
