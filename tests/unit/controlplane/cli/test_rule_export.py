"""`controlplane rules export`: what Prometheus and its operator take, and the same rules as the server's own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts import unit_tests
from alerts.rules import pack
from alerts.rules.loader import load
from controlplane.cli.main import run
from listeners.protocol.catalogue import BY_NAME
from tests.paths import ROOT
from tests.programs import required

TESTS = ROOT / "tests" / "data" / "rules" / "server.test.yaml"
LAYERS = ("agent", "driver", "host", "query", "stuck", "lag", "telemetry", "checkpoint", "server")


def exported(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["rules", "export", *arguments]) == 0
    return yaml.safe_load(capsys.readouterr().out)


def test_the_export_holds_the_rules_that_the_server_evaluates(capsys: pytest.CaptureFixture[str]) -> None:
    url = "https://streaming.example.com"
    found = exported(capsys, "--external-url", url)
    texts = [
        pack.render(runbooks=f"{url}/runbook?name="),
        pack.render_server_rules(runbooks=f"{url}/runbook?name="),
    ]
    assert found["groups"] == [group for text in texts for group in yaml.safe_load(text)["groups"]]


def test_a_prometheus_rule_is_the_rule_file_in_a_resource(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--name", "streaming", "--namespace", "spark", "--label", "release=prometheus")
    resource = exported(capsys, "--format", "prometheusrule", *options)
    assert (resource["apiVersion"], resource["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    labels = {"release": "prometheus"}
    assert resource["metadata"] == {"name": "streaming", "namespace": "spark", "labels": labels}
    assert resource["spec"] == exported(capsys)


def test_own_files_are_exported_instead_and_checked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, second, bad = (tmp_path / name for name in ("one.yaml", "two.yaml", "bad.yaml"))
    first.write_text("groups: [{name: a, rules: [{alert: A, expr: m > 5}]}]")
    second.write_text("groups: [{name: b, rules: [{record: 'r:m', expr: sum(m)}]}]")
    bad.write_text("groups: [{name: a, rules: [{alert: A, expr: m >}]}]")
    assert [group["name"] for group in exported(capsys, str(first), str(second))["groups"]] == ["a", "b"]
    assert run(["rules", "export", str(first), str(first)]) == 2
    assert "two groups are called 'a'" in capsys.readouterr().err
    assert run(["rules", "export", str(bad)]) == 2
    assert f"{bad}:1:" in capsys.readouterr().err


def test_promtool_takes_the_export_and_agrees_with_the_tests(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    promtool = required("promtool", "prometheus")
    assert run(["rules", "export"]) == 0
    (tmp_path / "export.yaml").write_text(capsys.readouterr().out, encoding="utf-8")
    (tmp_path / "server.yaml").write_text(without_annotations(pack.render_server_rules()), encoding="utf-8")
    shutil.copy(TESTS, tmp_path)
    for arguments in (("check", "rules", "export.yaml"), ("test", "rules", TESTS.name)):
        answer = subprocess.run(
            [promtool, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr


def without_annotations(text: str) -> str:
    """The rules without the sentences, which promtool would compare word by word."""
    document = yaml.safe_load(text)
    for group in document["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    return yaml.safe_dump(document)


def test_the_rules_about_the_server_are_sound_and_have_runbooks() -> None:
    text = pack.render_server_rules()
    groups, mistakes = load(text, "server")
    assert mistakes == ()
    for rule in (rule for group in groups for rule in group.rules):
        assert rule.labels["layer"] in LAYERS
        page = pack.runbook(rule.name) or ""
        assert page.startswith(f"# {rule.name}\n\n**{rule.labels['severity'].capitalize()}.**")
        assert all(heading in page for heading in ("## Diagnose", "## Resolve", "## Background"))
        names = set(re.findall(r"controlplane_\w+", rule.expr))
        assert names and names <= set(BY_NAME)


def test_our_own_engine_agrees_with_the_tests_of_these_rules() -> None:
    file, mistakes = unit_tests.load(TESTS.read_text(encoding="utf-8"))
    assert mistakes == ()
    groups, _ = load(without_annotations(pack.render_server_rules()), "server")
    assert [unit_tests.run(test, groups, file) for test in file.tests] == [(), ()]
