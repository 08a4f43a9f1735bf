"""The runner of promqltest files, on a file of our own."""

from __future__ import annotations

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


def test_points_may_be_written_as_runs() -> None:
    assert points("1 _ 2x2 3+1x2 5-2x1 _x2") == [1, None, 2, 2, 2, 3, 4, 5, 5, 3, None, None]
