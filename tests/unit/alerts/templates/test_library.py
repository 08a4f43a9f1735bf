"""Templates of messages: the same text as Alertmanager's, and default texts that an on-call person can act on."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from alerts.notify.receivers.webhook import payload
from alerts.notify.template_data import template_data
from alerts.templates.library import library
from tests.unit.alerts.notify.messages import FIRING, RESOLVED, message
from tests.unit.alerts.rules.test_pack import peer

BOTH = message(FIRING, RESOLVED)
SHIPPED = files("alerts.templates").joinpath("messages.tmpl").read_text(encoding="utf-8")
OWN = """
{{ define "own.list" }}{{ range . }}{{ .Labels.alertname }}={{ .Status }};{{ end }}{{ end }}
{{ define "own.all" }}{{ template "own.list" .Alerts }}|{{ template "own.list" .Alerts.Firing }}{{ end }}
{{ define "own.dot" }}{{ . }}{{ end }}
"""
TEXTS = [
    "plain",
    "{{ .Status | toUpper }} {{ .Receiver | title }} {{ .ExternalURL }}",
    "{{ len .Alerts }} {{ .Alerts.Firing | len }} {{ .Alerts.Resolved | len }}",
    '{{ .GroupLabels.SortedPairs.Values | join " " }} {{ .CommonLabels.Names }} {{ .CommonLabels.Values }}',
    '{{ with .CommonLabels.Remove .GroupLabels.Names }}{{ .Values | join " " }}{{ else }}none{{ end }}',
    '{{ (.CommonLabels.Remove (stringSlice "app")).Values | join "," }}',
    "{{ range .Alerts }}{{ range .Labels.SortedPairs }}{{ .Name }}={{ .Value }} {{ end }}{{ end }}",
    "{{ range $i, $a := .Alerts }}{{ if $i }}, {{ end }}{{ $i }}:{{ $a.Labels.alertname }}{{ end }}",
    "{{ range .Alerts }}{{ .Labels.alertname }}{{ break }}{{ end }}",
    '{{ range .Alerts }}{{ if eq .Status "firing" }}{{ continue }}{{ end }}{{ .Labels.alertname }}{{ end }}',
    "{{ range .Alerts.Firing }}a{{ else }}b{{ end }}{{ range $k, $v := .GroupLabels }}{{ $k }}{{ $v }}{{ end }}",
    '{{ template "own.all" . }}{{ template "own.list" .Alerts.Resolved }}{{ template "own.dot" "x" }}',
    '{{ template "own.dot" }}',
    '{{ block "own.block" .Status }}<{{ . }}>{{ end }}',
    '{{ define "own.late" }}late {{ .Status }}{{ end }}{{ template "own.late" . }}',
    "{{ (index .Alerts 0).Annotations.summary }} {{ (index .Alerts 1).Labels.app }}",
    '{{ range .Alerts }}{{ .StartsAt.Format "2006-01-02T15:04:05.000Z07:00 Mon Jan _2 3PM" }} {{ end }}',
    "{{ range .Alerts }}{{ .StartsAt.Unix }} {{ .EndsAt.IsZero }} {{ .Fingerprint }} {{ .GeneratorURL }}{{ end }}",
    "{{ range .Alerts }}{{ .StartsAt }} {{ end }}",
    "{{ range .Alerts.Resolved }}{{ .EndsAt.Sub .StartsAt }}{{ end }}",
    '{{ reReplaceAll "(.*)-(.*)" "$2" "a-b" }} {{ match "^f" .Status }} {{ .Status | printf "%-10s|" }}',
    "{{ .CommonAnnotations.nothing }}[{{ .CommonLabels.nothing }}]{{ if .CommonLabels.nothing }}x{{ end }}",
    "{{ $n := len .Alerts }}{{ if and (gt $n 1) (le $n 2) }}two{{ else if eq $n 1 }}one{{ end }}",
    '{{ $x := "a" }}{{ if true }}{{ $x = "b" }}{{ end }}{{ $x }}',
    "{{ .GroupLabels }} {{ .GroupLabels.SortedPairs }} {{ stringSlice `a` `b` }}",
    '{{ printf "%q %v %d %s" "a\\"b" true 3 .Status }} {{ print 1 2 "x" }} {{ urlquery "a b&c" }}',
    '{{ eq .Status "firing" "resolved" }} {{ ne 1 2 }} {{ not true }} {{ or "" "b" }} {{ and 1 0 }}',
    '{{ slice "abcdef" 1 3 }} {{ index .CommonLabels "app" }} {{ len "héllo" }}',
    "|{{- /* nothing */ -}} a {{- 1 }} {{ 2 -}} b",
]


def amtool(text: str, folder: Path, kind: str = "text") -> str:
    (folder / "own.tmpl").write_text(OWN, encoding="utf-8")
    data = payload(BOTH)
    (folder / "data.json").write_text(json.dumps(data), encoding="utf-8")
    where = ("--template.glob", str(folder / "*.tmpl"), "--template.data", str(folder / "data.json"))
    answer = peer(
        "amtool", "prometheus-alertmanager", "template", "render", *where,
        "--template.type", kind, "--template.text", text,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.removesuffix("\n")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What amtool makes of each of TEXTS."""
    return amtool("\n#####\n".join(TEXTS), tmp_path_factory.mktemp("templates")).split("\n#####\n")


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_a_template_gives_the_same_text_as_amtool(number: int, rendered: list[str]) -> None:
    ours = library([("own.tmpl", OWN)]).render(TEXTS[number], template_data(BOTH))
    assert ours == rendered[number]


@pytest.mark.parametrize(
    "text",
    ["<b>{{ (index .Alerts 0).Annotations.description }}</b>", '{{ "<i>" | safeHtml }}{{ "<&\'\\">" }}'],
)
def test_values_are_escaped_in_html_as_by_amtool(text: str, tmp_path: Path) -> None:
    ours = library().render(text, template_data(BOTH), as_html=True)
    assert ours.replace("&#x27;", "&#39;").replace("&quot;", "&#34;") == amtool(text, tmp_path, "html")


NAMES = [name for name in re.findall(r'define "([^"]+)"', SHIPPED) if not name.startswith("__")]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "alerts", [(FIRING,), (RESOLVED,), (FIRING, RESOLVED)], ids=["firing", "resolved", "both"]
)
def test_every_shipped_template_can_be_filled_in(name: str, alerts: tuple[object, ...]) -> None:
    data = template_data(message(*alerts))  # type: ignore[arg-type]
    given = ".Alerts" if name.endswith("instances") else "."
    text = library().render(f'{{{{ template "{name}" {given} }}}}', data, as_html=name.endswith("html"))
    assert "error expanding" not in text


def test_the_default_text_states_verdict_time_cause_and_links() -> None:
    text = library().render('{{ template "__text" . }}', template_data(message()))
    assert text.splitlines() == [
        "orders (shop) has failed.",
        "It ended with <b>an</b> exception.",
        "Since: 2023-11-14 22:13 UTC",
        "Probable cause: out of memory",
        "Query: http://control.example/query?query_id=q1",
        f"Alert: http://control.example/alerts?alert={FIRING.fingerprint}",
        "Runbook: http://control.example/runbook?name=QueryFailed.md",
        "Silence: http://control.example/alerts?silence=f1",
    ]
    over = library().render('{{ template "__text" . }}', template_data(message(RESOLVED)))
    assert "Resolved: 2023-11-14 23:15 UTC, after 1h 2m 5s" in over
    assert "Silence" not in over


def test_the_default_subject_is_the_verdict_of_one_alert_and_the_group_of_several() -> None:
    subject = '{{ template "__subject" . }}'
    assert library().render(subject, template_data(message())) == "[FIRING:1] orders (shop) has failed."
    assert library().render(subject, template_data(BOTH)) == "[FIRING:1] shop"


def test_long_lists_of_alerts_are_cut() -> None:
    from tests.unit.alerts.examples import alert

    many = message(*[alert("A", app="shop", query=f"q{number:02}") for number in range(12)])
    text = library().render('{{ template "__text" . }}', template_data(many))
    assert text.count("Since: ") == 10
    assert text.rstrip().endswith("and 2 more")


def test_a_file_replaces_a_shipped_template() -> None:
    own = library([("a.tmpl", '{{ define "__subject" }}mine{{ end }}')])
    assert own.render('{{ template "slack.default.title" . }}', template_data(message())) == "mine"


def test_errors_of_files_and_fields_are_found_when_they_are_loaded() -> None:
    with pytest.raises(
        ValueError, match=r"a.tmpl:1:4: there is no function 'nosuch'\nb.tmpl: there is no template 'x'"
    ):
        library([("a.tmpl", "{{ nosuch }}"), ("b.tmpl", '{{ template "x" }}')])
    assert [error.message for error in library().errors('{{ template "x" . }}')] == [
        "there is no template 'x'"
    ]
    assert library().errors('{{ template "__subject" . }}') == ()
    assert "'}}' is missing" in library().errors("{{ .Status")[0].message


@pytest.mark.parametrize(
    "text",
    [
        '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}',
        "{{ .Nothing }}",
        '{{ tz "Nowhere/Land" (index .Alerts 0).StartsAt }}',
        "{{ .Status.Upper 1 }}",
        "{{ slice `abc` 2 9 }}",
    ],
)
def test_an_error_while_filling_in_stays_in_the_text(text: str) -> None:
    assert library().render(text, template_data(message())).startswith("<error expanding template: ")


def test_a_separator_does_not_multiply_without_bound() -> None:
    doubled = '{{ $x := "a" }}{{ range 16 }}{{ $x = print $x $x }}{{ end }}'
    listed = '{{ $l := list "a" }}{{ range 8 }}{{ range $l }}{{ $l = append $l "b" }}{{ end }}{{ end }}'
    text = library().render(doubled + listed + "{{ join $x $l }}", {})
    assert text == "<error expanding template: a value is too long>"
