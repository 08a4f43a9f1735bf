"""Tokens: what is kept, what is shown, what is good."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.model import Role
from controlplane.runtime.tokens import (
    TokenRegistry,
    is_token_shaped,
    issue,
    read_secret,
    visible_prefix,
    write_secret,
)


@pytest.mark.parametrize("role", Role)
def test_a_secret_names_its_role_and_is_not_in_its_record(role: Role) -> None:
    secret, token = issue("ci", role, 100.0)
    assert secret.startswith(f"cp_{role.value}_")
    assert is_token_shaped(secret)
    assert not is_token_shaped(secret + "\n")
    assert secret not in repr(token)
    assert token.prefix == visible_prefix(secret)
    assert len(token.prefix) == len(f"cp_{role.value}_") + 6


def test_two_secrets_are_never_alike() -> None:
    assert len({issue("x", Role.ADMIN, 0.0)[0] for _ in range(200)}) == 200


def test_the_book_finds_a_token_by_its_secret_only() -> None:
    secret, token = issue("ci", Role.VIEWER, 100.0)
    book = TokenRegistry(lambda: 100.0)
    book.replace([token])
    assert book.find(secret) == token
    assert book.find(secret[:-1]) is None
    assert book.find(token.digest) is None
    assert book.find("") is None
    assert book.find("\ud800") is None


def test_expired_and_revoked_tokens_are_not_found() -> None:
    secret, token = issue("ci", Role.VIEWER, 100.0, expires_at=200.0)
    now = [150.0]
    book = TokenRegistry(lambda: now[0])
    book.replace([token])
    assert book.holds(token)
    now[0] = 200.0
    assert book.find(secret) is None
    assert not book.holds(token)
    now[0] = 150.0
    book.replace([replace(token, revoked_at=140.0)])
    assert book.find(secret) is None
    assert not book.holds(token)


def test_a_token_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "admin.token"
    path.write_text("old")
    path.chmod(0o644)
    write_secret(path, "cp_admin_x")
    assert read_secret(path) == "cp_admin_x"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["admin.token"]


def test_no_token_file_is_no_token(tmp_path: Path) -> None:
    assert read_secret(tmp_path / "none") is None
