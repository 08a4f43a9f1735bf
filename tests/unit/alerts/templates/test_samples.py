"""Functions of query results, of times and of links in the templates of rules."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from alerts.promql.series import Sample
from alerts.templates.expansion import expand

UP = (Sample({"job": "b", "__value__": "text"}, 2.0), Sample({"job": "a"}, 1.0))
NOW = 1_700_000_000.0


def query(expression: str) -> Sequence[Sample]:
    return UP if expression == "up" else ()


def filled(text: str) -> str:
    return expand(text, {"job": "x"}, 1.0, NOW, external_url="http://here/at", query=query)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('{{ query "up" | first | value }}', "2"),
        ('{{ query "up" | first | label "job" }}', "b"),
        ('{{ query "up" | first | label "none" }}', ""),
        ('{{ query "up" | first | strvalue }}', "text"),
        ('{{ range query "up" | sortByLabel "job" }}{{ .Labels.job }}={{ .Value }} {{ end }}', "a=1 b=2 "),
        ('{{ range $i, $s := query "up" }}{{ $i }}{{ $s.Labels.job }}{{ end }}', "0b1a"),
        ('{{ with query "none" }}some{{ else }}none{{ end }}', "none"),
        ('{{ len (query "up") }}', "2"),
        ('{{ query (printf "u%s" "p") | first | value }}', "2"),
        ("{{ (args 1 `b`).arg1 }}", "b"),
        ('{{ define "t" }}{{ .arg0 }}-{{ .arg1 }}{{ end }}{{ template "t" (args $labels.job 2) }}', "x-2"),
        ('{{ graphLink "up > 1" }}', "/graph?g0.expr=up+%3E+1&g0.tab=0"),
        ('{{ tableLink "up" }}', "/graph?g0.expr=up&g0.tab=1"),
        ("{{ externalURL }} {{ pathPrefix }}", "http://here/at /at"),
        ("{{ now | humanizeTimestamp }}", "2023-11-14 22:13:20 +0000 UTC"),
        ("{{ (toTime 0).Year }} {{ toTime 60 }}", "1970 1970-01-01 00:01:00 +0000 UTC"),
        ("{{ since (toTime 1699999940) }} {{ toDuration 90 }}", "1m0s 1m30s"),
        ('{{ slice "abcd" 1 3 }} {{ html "<a>" }} {{ js "it\'s" }}', "bc &lt;a&gt; it's"),
    ],
)
def test_what_a_function_gives(text: str, reported: str) -> None:
    assert filled(text) == reported


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{ query "none" | first }}', "first() called on vector with no elements"),
        ("{{ value 5 }}", "cannot take these arguments"),
        ("{{ toTime 1e300 }}", "is no time"),
        ("{{ range 100 }}{{ query `up` | len }}{{ end }}", "may make 20 queries"),
    ],
)
def test_what_cannot_be_done_is_reported_in_the_text(text: str, expected: str) -> None:
    assert expected in filled(text)


def test_without_a_source_a_query_gives_nothing() -> None:
    assert expand('{{ query "up" | len }}', {}, 1.0) == "0"
