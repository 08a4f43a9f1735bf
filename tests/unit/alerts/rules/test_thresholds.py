"""Thresholds by name, and the recorded series that replace them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from alerts.promql.syntax.parser import parse
from alerts.rules import thresholds
from controlplane.cli.rules import rules
from tests.paths import ROOT


@pytest.mark.parametrize("name", thresholds.DEFAULTS)
def test_a_comparison_is_an_expression_and_documented(name: str) -> None:
    assert parse(thresholds.comparison("a\n  / b", name))
    assert f"`{name}`" in (ROOT / "docs/guide.md").read_text(encoding="utf-8")


def test_rules_check_refuses_a_threshold_that_no_rule_reads(tmp_path: Path) -> None:
    file = tmp_path / "thresholds.yaml"
    record = "groups: [{name: t, rules: [{record: 'spark_streaming_threshold:NAME', expr: 'vector(1)'}]}]"
    file.write_text(record.replace("NAME", "lag_seconds"))
    assert CliRunner().invoke(rules, ["check", str(file)], standalone_mode=False).return_value == 0
    file.write_text(record.replace("NAME", "lag_second"))
    refused = CliRunner().invoke(rules, ["check", str(file)], standalone_mode=False)
    assert refused.return_value == 2
    assert "did you mean spark_streaming_threshold:lag_seconds?" in refused.output
