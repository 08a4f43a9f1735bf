"""Which exit code an error ends with."""

from __future__ import annotations

import click
import pytest

from controlplane.cli import main
from controlplane.console.errors import DataDirInUse, DemoFailed, ServerFailed, UsageProblem
from controlplane.errors import SettingsError, StoreUnavailable


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("the port is wrong"), 2),
        (StoreUnavailable("the disk is full"), 1),
        (UsageProblem("no such query"), 2),
        (DataDirInUse("not ours"), 2),
        (ServerFailed("it could not"), 1),
        (DemoFailed("see its log"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_is_one_line_with_an_exit_code_by_kind(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def broken() -> None:
        raise error

    monkeypatch.setattr(main, "cli", broken)
    assert main.run([]) == code
    printed = [line for line in capsys.readouterr().err.splitlines() if line]
    assert len(printed) == (0 if code == 130 else 1)
