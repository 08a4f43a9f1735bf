from __future__ import annotations

from pathlib import Path

from controlplane.model import Role
from controlplane.runtime.tokens import TokenRegistry, read_secret
from controlplane.settings import Settings
from controlplane.stored_tokens import StoredTokens
from tests.stores import StoreHarness, sqlite_harness


def stored_tokens(harness: StoreHarness, settings: Settings) -> tuple[TokenRegistry, StoredTokens]:
    registry = TokenRegistry(lambda: harness.now)
    clock = lambda: harness.now  # noqa: E731
    return registry, StoredTokens(registry, settings, harness.writer, harness.engine.connect, clock)


def test_the_local_tokens_are_issued_once_and_again_where_the_store_does_not_know_them(
    tmp_path: Path,
) -> None:
    settings = Settings(data_dir=tmp_path)
    with sqlite_harness(tmp_path) as harness:
        registry, tokens = stored_tokens(harness, settings)
        tokens.ensure_local()
        secret = read_secret(settings.admin_token_file)
        assert secret is not None
        found = registry.find(secret)
        assert found is not None and found.role is Role.ADMIN
        again, others = stored_tokens(harness, settings)
        others.ensure_local()
        assert read_secret(settings.admin_token_file) == secret
        assert again.find(read_secret(settings.agent_token_file) or "") is not None
        settings.admin_token_file.write_text("cp_admin_of_another_store")
        others.ensure_local()
        assert again.find(read_secret(settings.admin_token_file) or "") is not None
