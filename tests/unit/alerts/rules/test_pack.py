"""The pack that ships: sound, complete, documented, and saying the same in promtool and in our own engine."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from alerts import unit_tests
from alerts.rules import thresholds
from alerts.rules.loader import load
from alerts.rules.model import Rule, RuleGroup
from alerts.rules.pack import CHECKPOINT_CONDITIONS, meaning, render, render_routing, render_server_rules
from alerts.templates import expansion
from listeners.protocol.catalogue import BY_NAME, STATE_METRICS
from tests.paths import ROOT
from tests.programs import required

#: Cases evaluated every minute, and those that take hours every five minutes.
TESTS = tuple(ROOT / "tests" / "data" / "rules" / f"streaming{which}.test.yaml" for which in ("", "-hours"))
NAMES = {
    "AgentLost",
    "DriverLost",
    "QuerySilentlyGone",
    "DriverFailed",
    "SparkUnreachable",
    "QueryFailed",
    "FleetIncident",
    "IncidentMember",
    "RestartCannotHelp",
    "RestartBudgetSpent",
    "AppRestartBudgetSpent",
    "CheckpointTwoDrivers",
    "CheckpointTrouble",
    "CheckpointBroken",
    "CrashLoop",
    "Stuck",
    "LongBatch",
    "LagGrowing",
    "LagSecondsHigh",
    "Overrun",
    "InputDropped",
    "WatermarkStuck",
    "StateGrowthWithoutEviction",
    "EventsDropped",
    "EventsLate",
    "QuotaReached",
    "HostOverloaded",
    "CapacityExceeded",
    "RetentionRisk",
    "LateRowsDropped",
    "PartitionSkew",
    "SnapshotUploadLag",
    "StateCommitSlow",
    "CheckpointWriteSlow",
    "RocksDBStalled",
    "StateMemoryHigh",
    "StateMemoryTripled",
    "StateLimitNear",
    "BatchesUnreported",
    "UnnamedQuery",
    "TemporaryCheckpoint",
    "TuningAdvice",
    "WatermarkLag",
    "SlowStart",
    "Rewind",
    "ListenerSlow",
    "Flapping",
}


@cache
def groups(scale: float = 1.0) -> tuple[RuleGroup, ...]:
    found, mistakes = load(render(scale), "streaming")
    assert mistakes == ()
    return found


def rules(scale: float = 1.0) -> list[Rule]:
    return [rule for group in groups(scale) for rule in group.rules]


def peer(program: str, package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [required(program, package), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.0001, 12.0])
def test_the_pack_is_sound_at_every_scale(scale: float) -> None:
    assert {rule.name for rule in rules(scale)} == NAMES


def test_a_scale_shortens_windows_and_waiting_and_leaves_thresholds_alone() -> None:
    whole, short = ({(r.name, r.labels["severity"]): r for r in rules(s)} for s in (1.0, 0.1))
    high = ("LagSecondsHigh", "warning")
    assert (whole[high].for_, short[high].for_) == (300, 30)
    assert "[10m]) > 300" in whole[high].expr
    assert "[1m]) > 300" in short[high].expr
    growing = ("LagGrowing", "warning")
    assert "start_timestamp_seconds < 300" in whole[growing].expr
    assert "start_timestamp_seconds < 30" in short[growing].expr
    assert all(rule.for_ == 0 or rule.for_ >= 1 for rule in rules(0.0001))


@pytest.mark.parametrize("scale", [0, -1, 1001, float("nan")])
def test_a_scale_without_meaning_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale"):
        render(scale)


def test_alerts_on_the_lifecycle_of_a_query_wait_for_nothing() -> None:
    at_once = {rule.name for rule in rules() if rule.for_ == 0}
    assert at_once == {
        "DriverFailed",
        "QueryFailed",
        "FleetIncident",
        "IncidentMember",
        "RestartCannotHelp",
        "RestartBudgetSpent",
        "AppRestartBudgetSpent",
        "CheckpointTrouble",
        "CheckpointBroken",
        "CrashLoop",
        "Stuck",
        "EventsDropped",
        "BatchesUnreported",
        "QuotaReached",
        "SlowStart",
        "Rewind",
        "Flapping",
    }


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule.name}-{rule.labels['severity']}")
def test_every_alert_has_a_severity_a_layer_and_a_runbook(rule: Rule) -> None:
    assert rule.labels["severity"] in ("critical", "warning", "info")
    assert (
        rule.labels["layer"]
        in "agent driver host incident query stuck lag telemetry checkpoint data advice".split()
    )
    assert set(rule.annotations) == {"summary", "description", "runbook_url"}
    assert rule.annotations["runbook_url"] == f"alerts/rules/runbooks/{rule.name}.md"
    page = (ROOT / rule.annotations["runbook_url"]).read_text(encoding="utf-8")
    assert (
        page.startswith(f"# {rule.name}\n\n**{rule.labels['severity'].capitalize()}") or "**Warning**" in page
    )
    assert all(heading in page for heading in ("## Diagnose", "## Resolve", "## Background"))


def test_every_runbook_belongs_to_an_alert_and_its_links_lead_somewhere() -> None:
    pages = {
        path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "alerts/rules/runbooks").glob("*.md")
    }
    server, mistakes = load(render_server_rules(), "server")
    assert mistakes == ()
    assert set(pages) == NAMES | {rule.name for group in server for rule in group.rules}
    assert {link for page in pages.values() for link in re.findall(r"\]\((\w+)\.md\)", page)} <= set(pages)


def test_the_pack_asks_only_for_series_that_exist() -> None:
    named = {
        name
        for rule in rules()
        for name in re.findall(r"\b(?:spark_streaming|controlplane)_[\w:]+", rule.expr)
    }
    custom = {metric.name for metric in STATE_METRICS.values()}
    of_queries = {name for name in named if not name.startswith(thresholds.PREFIX)}
    assert named - of_queries == {thresholds.PREFIX + name for name in thresholds.DEFAULTS}
    assert of_queries - BY_NAME.keys() - custom == set()


def test_runbooks_can_be_elsewhere() -> None:
    text = render(runbooks="https://wiki.example/it's/")
    found, mistakes = load(text)
    assert mistakes == ()
    assert found[0].rules[0].annotations["runbook_url"] == "https://wiki.example/it's/AgentLost.md"


def test_an_address_of_runbooks_cannot_smuggle_a_template_in() -> None:
    found, mistakes = load(render(runbooks="http://x/{{ $value }}"))
    assert mistakes == ()
    assert "{{" not in expansion.expand(found[0].rules[0].annotations["runbook_url"], {}, 1.0)
    assert "$value" in found[0].rules[0].annotations["runbook_url"]


def test_conditions_of_checkpoints_are_patterns_that_prometheus_takes_too() -> None:
    assert all(re.fullmatch(r"[A-Za-z_.*-]+", pattern) for pattern in CHECKPOINT_CONDITIONS)


@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_promtool_takes_the_pack(scale: float, tmp_path: Path) -> None:
    (tmp_path / "pack.yaml").write_text(render(scale), encoding="utf-8")
    reported = peer("promtool", "prometheus", "check", "rules", str(tmp_path / "pack.yaml"))
    assert reported.returncode == 0, reported.stdout + reported.stderr


@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_amtool_takes_the_routes(scale: float, tmp_path: Path) -> None:
    (tmp_path / "routes.yaml").write_text(render_routing(scale, "http://127.0.0.1:9/"), encoding="utf-8")
    reported = peer("amtool", "prometheus-alertmanager", "check-config", str(tmp_path / "routes.yaml"))
    assert reported.returncode == 0, reported.stdout + reported.stderr


def test_promtool_finds_the_alerts_that_the_unit_tests_expect(tmp_path: Path) -> None:
    (tmp_path / "streaming.yaml").write_text(render(), encoding="utf-8")
    copies = [str(shutil.copy(file, tmp_path)) for file in TESTS]
    reported = peer("promtool", "prometheus", "test", "rules", *copies)
    assert reported.returncode == 0, reported.stdout + reported.stderr


FILES = [unit_tests.load(file.read_text(encoding="utf-8")) for file in TESTS]
CASES = [(file, test) for file, _ in FILES for test in file.tests]


@pytest.mark.parametrize(("file", "test"), CASES, ids=[test.name for _, test in CASES])
def test_our_own_engine_finds_them_too(file: unit_tests.UnitTestFile, test: unit_tests.UnitTest) -> None:
    """The rules that the test observes; promtool evaluates all of them above."""
    assert [mistakes for _, mistakes in FILES] == [(), ()]
    assert unit_tests.run(test, observed(test), file) == ()


def observed(test: unit_tests.UnitTest) -> list[RuleGroup]:
    """The groups with the rules that a test checks by name; whole where it reads the alerts of all."""
    asked = " ".join(check.expr for check in test.values)
    if "ALERTS" in asked and "alertname=" not in asked:
        return list(groups())
    names = {check.alert for check in test.alerts} | set(re.findall(r'alertname="(\w+)"', asked))
    chosen = (replace(g, rules=tuple(rule for rule in g.rules if rule.name in names)) for g in groups())
    return [group for group in chosen if group.rules]


def test_every_alert_of_the_pack_is_seen_to_fire_and_to_stay_silent() -> None:
    checks = [check for _, test in CASES for check in test.alerts]
    assert {check.alert for check in checks if check.expected} == NAMES
    assert {check.alert for check in checks if not check.expected} == NAMES


def test_every_shipped_alert_has_a_meaning_in_plain_english() -> None:
    names = [rule.name for rule in rules() if rule.annotations.get("runbook_url")]
    assert len(names) > 40
    for name in names:
        sentence = meaning(name)
        assert sentence.startswith(("Critical", "Warning", "Info")), name
        assert len(sentence) > 40, name
        assert not set("*`[]") & set(sentence), name
    assert meaning("NoSuchRule") == ""
