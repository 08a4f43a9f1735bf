"""No JVM here: what only a JVM can answer is answered by the fakes."""

import pytest

from listeners import classic


@pytest.fixture(autouse=True)
def _without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic, "manager_key", lambda jsqm: jsqm.key)
    monkeypatch.setattr(classic, "failure", lambda jsq: jsq.failure)
