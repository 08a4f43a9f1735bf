"""The runner of promqltest files, on a file of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paths import DATA
from tests.promqltest import main, points

SAMPLE = DATA / "promql" / "sample.promqltest"


def test_it_reports_failures_with_file_and_line_and_counts_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SAMPLE)]) == 1
    reported = capsys.readouterr().out.splitlines()
    assert reported[-1] == "7 passed, 3 failed, 2 skipped"
    assert f'{SAMPLE}:24: eval instant at 4m up{{job="a"}}' in reported
    assert f"{SAMPLE}:27: eval instant at 4m sum(up)" in reported
    assert "skipped 1: native histograms" in reported


@pytest.mark.parametrize(
    "text", ["hello", "load 1m\n  x{ 1 2", "load", "load 1m\n  x 1\neval instant at 1m x\n  x one"]
)
def test_a_file_that_cannot_be_read_does_not_pass(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "damaged.test").write_text(text, encoding="utf-8")
    assert main([str(tmp_path / "damaged.test")]) == 1
    assert capsys.readouterr().out.endswith("0 passed, 1 failed, 0 skipped\n")
    assert main([]) == main([str(tmp_path / "absent.test")]) == 2


def test_points_may_be_written_as_runs() -> None:
    assert points("1 _ 2x2 3+1x2 5-2x1 _x2") == [1, None, 2, 2, 2, 3, 4, 5, 5, 3, None, None]
