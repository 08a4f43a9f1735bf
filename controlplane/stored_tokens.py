"""The tokens of the store: read into the registry, and the local ones written to the data directory.

Built by `controlplane.app`. The standby reads tokens and issues none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.engine import Connection

from controlplane.model import Role
from controlplane.runtime.tokens import Token, TokenRegistry, issue, read_secret, write_secret
from controlplane.settings import Settings
from controlplane.store import tokens as rows
from controlplane.store.writer import Writer


class StoredTokens:
    """Reads and issues tokens. Thread-safe."""

    def __init__(
        self,
        registry: TokenRegistry,
        settings: Settings,
        writer: Writer,
        reading: Callable[[], AbstractContextManager[Connection]],
        clock: Callable[[], float],
    ):
        self._registry, self._settings, self._clock = registry, settings, clock
        self._writer, self._reading = writer, reading

    def reload(self) -> None:
        """Read all tokens from the store."""
        with self._reading() as conn:
            found = rows.all(conn)
        self._registry.replace(Token(**{**row, "role": Role(row["role"])}) for row in found)

    def ensure_local(self) -> None:
        """Write `admin.token` and `agent.token` to the data directory, for the UI, CLI and agents of this machine."""
        self.reload()
        files = {Role.ADMIN: self._settings.admin_token_file, Role.AGENT: self._settings.agent_token_file}
        for role, path in files.items():
            secret = read_secret(path)
            known = self._registry.find(secret) if secret else None
            if known is None or known.role != role:
                write_secret(path, self._issue(f"local {role.value}", role))
        self.reload()

    def _issue(self, name: str, role: Role) -> str:
        # The administrator of this machine: the dashboard and the commands state the person's name.
        secret, token = issue(name, role, self._clock(), may_impersonate=role is Role.ADMIN)
        self._writer.write(lambda conn: rows.insert(conn, **token.columns()))
        return secret
