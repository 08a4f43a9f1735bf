"""An inventory that is cut short, at any call, by a driver that hangs or dies reports nothing false of the checkpoint."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from controlplane.checkpoints.inventory.model import from_json
from controlplane.checkpoints.report import build_report
from controlplane.checkpoints.survey import Survey
from listeners.checkpoints.inventory_reader import Bounds, DriverInventory, collect
from listeners.protocol.errors import FilesError
from tests.unit.listeners.local_files import LocalFiles, write_batch, write_checkpoint


class Hangs(BaseException):
    """In place of a call that never returns."""


class CutFiles(LocalFiles):
    """Answers that many calls; the others raise `error`. `grows`: a batch is committed during each listing of the logs."""

    def __init__(self, root: Path, answers: float, error: type[BaseException], grows: bool):
        super().__init__(root)
        write_checkpoint(root, batches=2)
        self.answers, self.error, self.grows = answers, error, grows

    def _guarded(self, path: str, ask: Any) -> Any:
        if len(self.calls) >= self.answers:
            raise self.error("the answer from the Java side is empty")
        if self.grows and path == "commits":
            write_batch(self.path, sum(1 for _ in (self.path / "commits").iterdir()))
        return super()._guarded(path, ask)


def report(files: CutFiles) -> dict[str, Any]:
    inventory = DriverInventory(files, Bounds(), time.monotonic() + 600, time.monotonic)
    try:
        collect(inventory)
    except Hangs:
        pass
    return build_report(Survey(from_json(inventory.document(time.time(), "4.0.1")), None), None, None)


def errors(found: dict[str, Any]) -> set[str]:
    return {finding["check"] for finding in found["findings"] if finding["severity"] == "error"}


@pytest.mark.parametrize("grows", [False, True], ids=["idle", "running"])
@pytest.mark.parametrize("error", [Hangs, FilesError])
def test_a_healthy_checkpoint_is_never_called_broken(
    tmp_path: Path, error: type[BaseException], grows: bool
) -> None:
    whole = CutFiles(tmp_path / "whole", float("inf"), error, grows)
    kept = errors(report(whole))  # of the state, which these files only stand for
    for answers in range(len(whole.calls)):
        found = report(CutFiles(tmp_path / str(answers), answers, error, grows))
        assert errors(found) <= kept | {"ckpt.unreadable"}, answers
        assert found["verdict"] != "ok" or found["next_batch"] > 0, answers
