"""`controlplane rules` and `config check` without a server: every mistake with its place, and the exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from alerts.rules.pack import render, render_routing
from controlplane.cli.main import run
from controlplane.cli.rules import is_unknown, replay_lines

GOOD = 'groups: [{name: g, rules: [{alert: A, expr: m > 5}, {record: "r:m", expr: m}]}]'
BAD = """groups:
  - name: g
    rules:
      - alert: A
        expr: m >
        for: soon
"""
TEST = """rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series: [{series: 'm{app="x"}', values: "1 9 9"}]
    alert_rule_test:
      - {eval_time: 1m, alertname: A, exp_alerts: [{exp_labels: {app: x}}]}
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def written(folder: Path, text: str, name: str = "rules.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_good_files_are_counted(cli: Run, tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    assert cli("rules", "check", file) == (0, f"{file}: 1 group, 2 rules\n", "")


def test_every_mistake_of_every_file_has_its_place(cli: Run, tmp_path: Path) -> None:
    bad, good = written(tmp_path, BAD, "bad.yaml"), written(tmp_path, GOOD)
    code, out, err = cli("rules", "check", bad, good)
    assert code == 2
    places = [line.split(": ")[0] for line in err.splitlines()]
    assert places == [f"{bad}:5:18", f"{bad}:6:14"]
    assert out == f"{good}: 1 group, 2 rules\n"


def test_a_rule_that_fails_at_every_evaluation_is_an_error(cli: Run, tmp_path: Path) -> None:
    text = """groups:
  - name: g
    rules:
      - {record: a, expr: 'sum(label_replace(up, "x", "$1", "job", "("))'}
      - {record: b, expr: 'label_join(up, "", ",", "job")'}
      - {record: c, expr: 'label_replace(up, "x", "LONG", "job", ".*")'}
      - {record: d, expr: 'label_replace(up, "x", "$1", "job", "(.*)")'}
"""
    file = written(tmp_path, text.replace("LONG", "x" * 5000))
    code, _, err = cli("rules", "check", file)
    lines = [line.removeprefix(f"{file}:") for line in err.splitlines()]
    assert code == 2
    assert [line.split(":")[0] for line in lines] == ["4", "5", "6"]
    assert "a fails at every evaluation: 1:5: invalid regular expression in label_replace()" in lines[0]
    assert "invalid label name" in lines[1]
    assert "a label may have 4096 characters" in lines[2]


def test_a_metric_that_nothing_reports_is_a_warning(cli: Run, tmp_path: Path) -> None:
    text = """groups:
  - name: g
    rules:
      - {record: spark_streaming_mine, expr: spark_streaming_batch_id}
      - {alert: A, expr: spark_streaming_lag > 1 and spark_streaming_mine}
      - {alert: B, expr: up == 0 or ALERTS}
"""
    file = written(tmp_path, text)
    code, _, err = cli("rules", "check", file)
    assert code == 0
    assert err == f"{file}:5: warning: A reads spark_streaming_lag, which nothing reports\n"


@pytest.mark.parametrize(
    ("name", "unknown"),
    [
        ("spark_streaming_batch_id", False),
        ("spark_streaming_rocksdb_anything_new", False),
        ("spark_streaming_state_custom_anything", False),
        ("controlplane_agents", False),
        ("controlplane_agent", True),
        ("spark_streaming_batchid", True),
        ("node_cpu_seconds_total", False),
    ],
)
def test_names_are_known_by_the_catalogue(name: str, unknown: bool) -> None:
    assert is_unknown(name) is unknown


def test_the_pack_that_ships_reads_only_what_is_reported(cli: Run, tmp_path: Path) -> None:
    code, shown, _ = cli("rules", "show", "--scale", "0.5")
    assert (code, shown) == (0, render(0.5))
    assert cli("rules", "check", written(tmp_path, shown))[2] == ""
    assert cli("rules", "show", "--routing")[1] == render_routing()


def test_unit_tests_pass_or_end_with_1(cli: Run, tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    passing = written(tmp_path, TEST, "passing.yaml")
    assert cli("rules", "test", passing) == (0, f"{passing}: 1 test passed\n", "")
    failing = written(tmp_path, TEST.replace("1 9 9", "1 1 1"), "failing.yaml")
    code, out, err = cli("rules", "test", failing)
    assert (code, out) == (1, f"{failing}: FAILED\n")
    assert err.startswith(f"{failing}:7:1: at 60 s A did not fire")


def test_mistakes_of_a_unit_test_and_of_its_rules_end_with_2(cli: Run, tmp_path: Path) -> None:
    bad = written(tmp_path, BAD)
    text = TEST.replace("[rules.yaml]", "[rules.yaml, none.yaml]").replace("eval_time: 1m", "eval_time: x")
    file = written(tmp_path, text, "test.yaml")
    code, out, err = cli("rules", "test", file)
    assert (code, out) == (2, "")
    assert [line.split(": ")[0] for line in err.splitlines()] == [
        f"{file}:7:21",
        f"{bad}:5:18",
        f"{bad}:6:14",
        f"{file}",
    ]


@pytest.mark.parametrize("what", [("check",), ("test",), ("replay",)])
def test_a_file_that_cannot_be_read_is_one_line(cli: Run, what: tuple[str], tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    for file, expected in (
        (tmp_path / "none", "No such file"),
        (binary, "not UTF-8"),
        (tmp_path, "directory"),
    ):
        code, out, err = cli("rules", *what, file)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert expected in err


def test_mistakes_of_a_replay_are_reported_before_a_server_is_asked(cli: Run, tmp_path: Path) -> None:
    bad = written(tmp_path, BAD)
    code, _, err = cli("rules", "replay", bad, "--server", "http://127.0.0.1:1")
    assert code == 2
    assert [line.split(": ")[0] for line in err.splitlines()] == [f"{bad}:5:18", f"{bad}:6:14"]


def test_a_replay_is_reported_in_lines() -> None:
    episode = {
        "name": "A",
        "labels": {"alertname": "A", "b": "2", "app": "x\n"},
        "fired_at": "2026-11-20T05:00:00.000Z",
        "resolved_at": "2026-11-20T06:30:00.000Z",
    }
    lines = replay_lines(
        {
            "episodes": [episode, {**episode, "resolved_at": None, "labels": {"alertname": "A"}}],
            "errors": [{"rule": "B", "error": "many", "first_at": "T", "count": 1}],
            "notes": ["coarse"],
            "evaluations": 7,
            "start": "S",
            "until": "U",
        }
    )
    assert lines == [
        'A would have fired at 2026-11-20T05:00:00.000Z for 1h30m, on {app="x\\n", b="2"}',
        "A would have fired at 2026-11-20T05:00:00.000Z until now, on {}",
        "B failed 1 time, first at T: many",
        "note: coarse",
        "2 alerts in 7 evaluations from S to U",
    ]


def test_the_configuration_is_checked_with_its_files(cli: Run, tmp_path: Path) -> None:
    bad, notify = written(tmp_path, BAD), written(tmp_path, "route: {receiver: nobody}\n", "notify.yaml")
    code, out, err = cli("config", "check", "--rules", bad, "--notify", notify)
    assert (code, out) == (2, "")
    assert [line.split(": ")[1] for line in err.splitlines()] == [
        f"{bad}:5:18",
        f"{bad}:6:14",
        f"{notify}:1:19",
    ]


def test_a_good_configuration_is_shown_with_what_is_hardly_meant(cli: Run, tmp_path: Path) -> None:
    rules = written(tmp_path, GOOD.replace("m > 5", "spark_streaming_lag > 5"))
    routes = written(tmp_path, "route: {receiver: a}\nreceivers: [{name: a}, {name: b}]\n", "notify.yaml")
    code, out, err = cli("config", "check", "--rules", rules, "--rules", "shipped", "--notify", routes)
    assert code == 0
    assert f"rules = {rules}:shipped" in out
    assert err.splitlines() == [
        f"{rules}:1: warning: A reads spark_streaming_lag, which nothing reports",
        "warning: no route names the receiver 'b'",
    ]


def test_the_secret_address_of_a_webhook_is_not_shown(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTROLPLANE_WEBHOOK", "https://hooks.example/hunter2")
    code, out, err = cli("config", "check")
    assert code == 0, err
    assert "webhook = (set)" in out
    assert "hunter2" not in out + err
