"""Templates of labels and annotations. Figures were checked against promtool 2.42 (see rules/test_peers.py)."""

from __future__ import annotations

import math
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.templates.expansion import expand, queries, template_errors

LABELS = {"query": "orders", "app": "shop", "url": "http://a/b?c", "host": "db.example.org:5432"}


@pytest.mark.parametrize(
    ("text", "value", "reported"),
    [
        ("nothing to do", 1, "nothing to do"),
        ("{{ $labels.query }} of {{$labels.app}}", 1, "orders of shop"),
        ("{{ .Labels.app }} {{ .Value }}", 2.5, "shop 2.5"),
        ("[{{ $labels.missing }}]", 1, "[]"),
        ("{{ $value | humanizeDuration }}", 3725.4, "1h 2m 5s"),
        ('{{ printf "%.2f of %s" $value $labels.app }}', 1.236, "1.24 of shop"),
        ('{{ $value | printf "%6.1f|" }}', 2, "   2.0|"),
        ('{{ printf "%d%%" 5 }}', 1, "5%"),
        ('{{ printf "%d" $value }}', 1.5, "%!d(float64=1.5)"),
        ('{{ printf "%s" }}', 1, "%!s(MISSING)"),
        ("{{ if gt $value 5.0 }}high{{ else if gt $value 2.0 }}mid{{ else }}low{{ end }}", 6, "high"),
        ("{{ if gt $value 5.0 }}high{{ else if gt $value 2.0 }}mid{{ else }}low{{ end }}", 3, "mid"),
        ("{{ if gt $value 5.0 }}high{{ else if gt $value 2.0 }}mid{{ else }}low{{ end }}", 1, "low"),
        ('{{ if and (eq $labels.app "shop") (not $labels.none) }}yes{{ end }}', 1, "yes"),
        ('{{ if match "^ord.*" $labels.query }}yes{{ end }}', 1, "yes"),
        ('{{ if match "der" $labels.query }}yes{{ end }}', 1, "yes"),
        ('{{ reReplaceAll "(.*):([0-9]+)" "$2 of ${1}" $labels.host }}', 1, "5432 of db.example.org"),
        ('{{ reReplaceAll "(?i)O" "0" $labels.query }}', 1, "0rders"),
        ("{{ with $labels.none }}some{{ else }}none{{ end }}", 1, "none"),
        ("{{ with $x := $labels.app }}{{ $x }}={{ . }}{{ end }}", 1, "shop=shop"),
        ("{{ $x := $labels.app }}{{ $x | toUpper }}", 1, "SHOP"),
        ("{{ range $k, $v := .Labels }}{{ $k }} {{ end }}", 1, "app host query url "),
        ("a {{- /* said to nobody */ -}} b", 1, "ab"),
        ("a  {{- $value -}}  b", 1, "a1b"),
        ('{{ index $labels "app" }}', 1, "shop"),
        ("{{ $labels.host | stripPort }} {{ stripDomain $labels.host }}", 1, "db.example.org db:5432"),
        ("{{ urlquery $labels.url }}", 1, "http%3A%2F%2Fa%2Fb%3Fc"),
        ('{{ "a}}b" }}', 1, "a}}b"),
        ("{{ `raw \\n` }}", 1, "raw \\n"),
        ('{{ parseDuration "1h" }}', 1, "3600"),
        ("{{ $externalURL }}|{{ $externalLabels.dc }}", 1, "http://here|eu"),
        ("{{ title $labels.query }}", 1, "Orders"),
        ("{{ humanizeTimestamp $value }}", 1_700_000_000.5, "2023-11-14 22:13:20.5 +0000 UTC"),
    ],
)
def test_what_a_template_states(text: str, value: float, reported: str) -> None:
    assert expand(text, LABELS, value, external_labels={"dc": "eu"}, external_url="http://here") == reported


@pytest.mark.parametrize(
    ("function", "value", "reported"),
    [
        ("humanize", 0, "0"),
        ("humanize", 1234567, "1.235M"),
        ("humanize", 0.00001234, "12.34u"),
        ("humanize", -1500, "-1.5k"),
        ("humanize", math.inf, "+Inf"),
        ("humanize", math.nan, "NaN"),
        ("humanize1024", 1048576, "1Mi"),
        ("humanize1024", 0.5, "0.5"),
        ("humanizeDuration", 0, "0s"),
        ("humanizeDuration", 59.95, "59.95s"),
        ("humanizeDuration", 90061, "1d 1h 1m 1s"),
        ("humanizeDuration", 0.0015, "1.5ms"),
        ("humanizeDuration", -61, "-1m 1s"),
        ("humanizePercentage", 0.123456, "12.35%"),
    ],
)
def test_figures_for_people(function: str, value: float, reported: str) -> None:
    assert expand(f"{{{{ {function} $value }}}}", {}, value) == reported


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        (1, "1"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (100000, "100000"),
        (1234567, "1.234567e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e21, "1e+21"),
        (math.inf, "+Inf"),
        (math.nan, "NaN"),
    ],
)
def test_a_bare_number_is_written_as_go_writes_it(value: float, reported: str) -> None:
    assert expand("{{ $value }}", {}, value) == reported


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("{{ $labels.query", 1, 1, "'}}' is missing"),
        ("one\n  {{ nosuch }}", 2, 6, "there is no function 'nosuch'"),
        ("{{ $x }}", 1, 4, "the variable $x is not defined"),
        ("{{ if true }}{{ $y := 1 }}{{ end }}{{ $y }}", 1, 39, "the variable $y is not defined"),
        ("{{ if }}a{{ end }}", 1, 7, "a value must stand here"),
        ("{{ if true }}", 1, 14, "'{{ end }}' is missing"),
        ("{{ end }}", 1, 1, "'end' without"),
        ("{{ else }}", 1, 1, "'else' without"),
        ('{{ template "x" }}', 1, 1, "there is no template 'x'"),
        ("{{ $value | 5 }}", 1, 15, "after | a function must stand"),
        ('{{ "a" "b" }}', 1, 12, "only a function takes arguments"),
        ("{{ (1 }}", 1, 7, "')' is missing"),
        ("{{ # }}", 1, 4, "'#' may not stand here"),
        ("{{ }}", 1, 4, "a value must stand here"),
        ("{{ " + "(" * 50 + "1" + ")" * 50 + " }}", 1, 1, "nested deeper"),
    ],
)
def test_a_broken_template_is_reported_with_its_place(
    text: str, line: int, column: int, expected: str
) -> None:
    (mistake,) = template_errors(text)
    assert expected in mistake.message
    assert (mistake.line, mistake.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{ humanize "abc" }}', "is not a number"),
        ("{{ printf }}", "cannot take these arguments"),
        ('{{ lt "a" 1 }}', "cannot be compared"),
        ("{{ $value.x }}", "has no field x"),
        ("{{ .Nothing }}", "there is no .Nothing"),
        ('{{ parseDuration "soon" }}', "is not a valid duration"),
        ('{{ match "(" "a" }}', "missing )"),
        (
            '{{ reReplaceAll "a" "$0$0" (printf "%900s" "a") | reReplaceAll " " "            " }}',
            "longer than",
        ),
        ("{{ nosuch }}", "there is no function"),
    ],
)
def test_an_error_while_filling_in_is_reported_in_the_text_and_never_raised(text: str, expected: str) -> None:
    reported = expand(text, {}, 1.0)
    assert reported.startswith("<error expanding template: ")
    assert expected in reported


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('{{ printf "%d %d %d" 0x1F 0b101 0o17 }}', "31 5 15"),
        ('{{ printf "%d %d" 017 1_000 }}', "15 1000"),
        ("{{ printf \"%d\" 'a' }}", "97"),
        ("{{ 1_0.5e1 }} {{ -0x10 }}", "105 -16"),
        ("{{ `a\\n{{ b` }}", "a\\n{{ b"),
    ],
)
def test_literals_are_those_of_go(text: str, reported: str) -> None:
    assert template_errors(text) == ()
    assert expand(text, {}, 1.0) == reported


def test_a_number_that_is_none_is_reported() -> None:
    assert "is not a number" in template_errors("{{ 0x_ }}")[0].message
    assert "one character" in template_errors("{{ 'ab' }}")[0].message


def test_an_unknown_function_is_an_error_at_load() -> None:
    for name in ("tmpl", "call", "nosuch"):
        assert f"there is no function '{name}'" in template_errors(f"{{{{ {name} 1 }}}}")[0].message


def test_queries_are_found_where_they_are_literals() -> None:
    text = '{{ with (query "a" | first) }}{{ range query `b` }}{{ end }}{{ end }}{{ query $labels.x }}'
    assert queries(text + '{{ define "t" }}{{ "c" | query }}{{ query "d" }}{{ end }}') == ("a", "b", "d")


def test_a_template_can_neither_run_for_ever_nor_grow_without_end() -> None:
    labels = {f"l{n}": "x" * 100 for n in range(60)}
    nested = "{{ range .Labels }}" * 5 + "{{ . }}" + "{{ end }}" * 5
    inner = nested.replace("range .Labels", "range $labels")
    began = time.process_time()
    assert "more than 65536 characters" in expand(inner, labels, 1.0)
    assert "steps" in expand(inner.replace("{{ . }}", ""), labels, 1.0)
    assert len(expand('{{ printf "%999999999s" "a" }}', {}, 1.0)) <= 1000
    assert time.process_time() - began < 2


def test_a_text_that_doubles_in_a_loop_is_an_error() -> None:
    doubled = '{{ $x := "a" }}{{ range 22 }}{{ $x = printf "%s%s" $x $x }}{{ end }}{{ len $x }}'
    assert expand(doubled.replace("22", "20"), {}, 1.0) == "1048576"
    assert "a value is too long" in expand(doubled, {}, 1.0)


#: A variable of 512 KiB, in few characters.
HALF_MIB = '{{ $x := "a" }}{{ range 19 }}{{ $x = print $x $x }}{{ end }}'
BOMBS = {
    "one call with many arguments": HALF_MIB + "{{ print %s }}" % ("$x " * 1000),
    "a format with many verbs": HALF_MIB + '{{ printf "%s" %s }}' % ("%s" * 1000, "$x " * 1000),
    "many variables": HALF_MIB + "".join("{{ $v%d := toUpper $x }}" % n for n in range(1000)),
    "a mapping that doubles": "{{ $x := args 1 2 }}" + "{{ $x = args $x $x }}" * 40 + "{{ $x }}",
    "equal mappings that double": "{{ $x := args 1 }}{{ $y := args 1 }}"
    + "{{ $x = args $x $x }}{{ $y = args $y $y }}" * 40
    + "{{ eq $x $y }}",
    "a replacement that refers to its match": HALF_MIB
    + '{{ $r := "$0" }}{{ range 15 }}{{ $r = print $r $r }}{{ end }}{{ reReplaceAll ".+" $r $x }}',
    "loops without a body": "{{ range 10000 }}{{ range 10000 }}{{ end }}{{ end }}",
    "loops in loops": "{{ range 999 }}{{ range 999 }}{{ range 999 }}{{ end }}{{ end }}{{ end }}",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_no_template_takes_memory_or_steps_without_bound(bomb: str) -> None:
    tracemalloc.start()
    try:
        text = expand(bomb, {}, 1.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "is too long" in text or "steps" in text or "longer than" in text
    assert peak < 96 * 2**20


PIECES = [
    "{{",
    "}}",
    "{{-",
    "-}}",
    " ",
    "$labels",
    ".x",
    "$value",
    "|",
    "if",
    "end",
    "else",
    "range",
    '"a"',
    "(",
    ")",
    "1",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_any_text_can_be_filled_in(text: str) -> None:
    assert isinstance(expand(text, LABELS, 1.0), str)
