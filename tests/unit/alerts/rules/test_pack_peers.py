"""Rule files and templates beside promtool 2.42: what it takes we take, what it states we say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alerts.rules.loader import load
from alerts.templates.expansion import expand
from tests.unit.alerts.rules.test_loader import DATA
from tests.unit.alerts.rules.test_pack import peer

LABELS = {"query": "orders", "app": "shop", "host": "db.example.org:5432"}
VALUES = "0 1 -2.5 0.00001234 59.95 3725.4 90061 100000 123456789 1234567.891 1e15 +Inf".split()
TEMPLATES = [
    "{{ $value }}",
    "{{ .Value }} {{ .Labels.app }}",
    "{{ humanize $value }}",
    "{{ humanize1024 $value }}",
    "{{ $value | humanizeDuration }}",
    "{{ humanizePercentage $value }}",
    '{{ printf "%.2f|%8.1f|%-8.1f|%+.1e|%g|%v|%5s|%q|%d%%" $value $value $value $value $value $value "a" "b" 5 }}',
    '{{ printf "%d" $value }} {{ printf "%s" }} {{ printf "a" 1 }}',
    "{{ if gt $value 5.0 }}high{{ else if gt $value 0.5 }}mid{{ else }}low{{ end }}",
    "[{{ $labels.missing }}] {{ with $labels.none }}x{{ else }}none{{ end }}",
    "{{ range $k, $v := $labels }}{{ $k }}={{ $v }};{{ end }}",
    "a {{- /* nothing */ -}} b {{ $x := $labels.app }}{{ $x | toUpper }} {{ title $labels.query }}",
    '{{ $labels.host | stripPort }} {{ if match "^ord" $labels.query }}y{{ end }} {{ index $labels "app" }}',
    '{{ if and (eq $labels.app "shop") (not $labels.none) }}yes{{ end }}{{ or $labels.none "default" }}',
    '{{ "quoted \\t" }}{{ `raw \\n` }}{{ len $labels.app }} {{ print "a" "b" 1 2 }} {{ urlquery "a b/c?" }}',
]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_promtool_renders_the_same_from_the_same_templates(tmp_path: Path) -> None:
    notes = "\n".join(f"          a{n}: {quoted(text)}" for n, text in enumerate(TEMPLATES))
    rules = f"groups:\n  - name: g\n    rules:\n      - alert: A\n        expr: m\n        annotations:\n{notes}\n"
    (tmp_path / "rules.yaml").write_text(rules, encoding="utf-8")
    groups, mistakes = load(rules)
    assert mistakes == ()
    assert list(groups[0].rules[0].annotations.values()) == TEMPLATES
    tests = []
    for value in VALUES:
        labels = ", ".join(f'{name}="{text}"' for name, text in LABELS.items())
        reported = {f"a{n}": _ours(text, float(value)) for n, text in enumerate(TEMPLATES)}
        fires = {"exp_labels": LABELS, "exp_annotations": reported}
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": f"m{{{labels}}}", "values": value}],
                "alert_rule_test": [{"eval_time": "0m", "alertname": "A", "exp_alerts": [fires]}],
            }
        )
    # JSON is YAML.
    (tmp_path / "test.yaml").write_text(
        json.dumps({"rule_files": ["rules.yaml"], "tests": tests}), encoding="utf-8"
    )
    answer = peer("promtool", "prometheus", "test", "rules", str(tmp_path / "test.yaml"))
    assert answer.returncode == 0, answer.stdout + answer.stderr


def _ours(text: str, value: float) -> str:
    labels = {"__name__": "m", **LABELS}
    return expand(text, labels, value)


#: What Prometheus takes since 2.42, and so not the promtool of Debian 12.
NEWER = ("everything.good.yaml",)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.good.yaml")), ids=lambda path: path.name)
def test_promtool_takes_our_good_files(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.name in NEWER:
        lines = [
            line
            for line in text.splitlines()
            if not line.startswith(("    query_offset", "    labels: {team"))
        ]
        text = "\n".join(lines)
    (tmp_path / "rules.yaml").write_text(text, encoding="utf-8")
    answer = peer("promtool", "prometheus", "check", "rules", str(tmp_path / "rules.yaml"))
    assert answer.returncode == 0, answer.stdout + answer.stderr


#: Refused by us and not by Prometheus: what could hide a bomb, and files with two documents.
STRICTER = ("yaml.bad.yaml",)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.bad.yaml")), ids=lambda path: path.name)
def test_promtool_refuses_our_bad_files(path: Path) -> None:
    if path.name in STRICTER:
        return
    answer = peer("promtool", "prometheus", "check", "rules", str(path))
    assert answer.returncode != 0
