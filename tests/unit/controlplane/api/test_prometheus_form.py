"""Parameters of Prometheus' API: what is taken, what is refused, and that the refusal names the parameter."""

from __future__ import annotations

from urllib.parse import quote_plus

import pytest

from alerts.rules.model import RuleKind
from controlplane.api.prometheus import PrometheusError
from controlplane.api.prometheus_form import Form, QueryRange, label_name, read, rules_wanted, stretch


def asked(**parameters: str) -> Form:
    return read("&".join(f"{name}={quote_plus(value)}" for name, value in parameters.items()))


def test_the_form_comes_before_the_address_and_the_first_of_several_counts() -> None:
    form = read("query=b&match[]=x&query=c", b"query=a+%2B+1&match%5B%5D=y")
    assert form.text("query") == "a + 1"
    assert form.texts("match[]") == ("y", "x")
    assert (form.text("nothing"), form.texts("nothing")) == ("", ())


def test_what_is_no_text_is_still_read() -> None:
    assert read("query=%ff%zz", b"\xff=1&a").text("query") == "\ufffd%zz"


def test_a_thousand_parameters_are_enough() -> None:
    with pytest.raises(PrometheusError, match="1000 parameters"):
        read("a=1&" * 2000)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1795159016", 1795159016.0),
        ("1795159016.1254", 1795159016.125),
        ("1.795159016e9", 1795159016.0),
        ("-1", -1.0),
        (".5", 0.5),
        ("2026-11-20T07:16:56Z", 1795159016.0),
        ("2026-11-20T07:16:56.781Z", 1795159016.781),
        ("2026-11-20T07:16:56.123456789Z", 1795159016.123),
        ("2026-11-20T08:46:56+01:30", 1795159016.0),
        ("", 5.0),
    ],
)
def test_a_time_is_rfc_3339_or_unix_seconds(text: str, seconds: float) -> None:
    assert asked(time=text).moment("time", 5.0) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-11-20",
        "2026-11-20T07:16:56",
        "2026-13-20T07:16:56Z",
        "20261120T071656Z",
        "nan",
        "inf",
        "1e300",
        "1_000",
        " 1",
        "٣",
        "1e5000",
        "now" * 1000,
    ],
)
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(PrometheusError, match='invalid parameter "time": cannot parse ') as caught:
        asked(time=text).moment("time", 5.0)
    assert (caught.value.status, caught.value.code) == (400, "bad_data")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "seconds"), [("15", 15.0), ("0.5", 0.5), ("1m30s", 90.0), ("250ms", 0.25), ("-1", -1.0)]
)
def test_a_duration_is_seconds_or_units(text: str, seconds: float) -> None:
    assert asked(step=text).duration("step") == seconds


@pytest.mark.parametrize("text", ["", "x", "1m 30s", "30s1m", "-5m", "inf", "1e20", "300y", "1_0"])
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(PrometheusError, match='invalid parameter "step": cannot parse '):
        asked(step=text).duration("step")


def test_a_range_query_needs_its_times_and_at_most_11_000_points() -> None:
    assert stretch(asked(start="0", end="11000", step="1")) == QueryRange(0, 11000, 1)
    assert stretch(asked(start="5", end="5", step="1s")) == QueryRange(5, 5, 1)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"end": "2", "step": "1"}, '"start"'),
        ({"start": "1", "step": "1"}, '"end"'),
        ({"start": "1", "end": "2"}, '"step"'),
        ({"start": "2", "end": "1", "step": "1"}, "end timestamp must not be before start time"),
        ({"start": "1", "end": "2", "step": "0"}, "zero or negative"),
        ({"start": "1", "end": "2", "step": "-1"}, "zero or negative"),
        ({"start": "1", "end": "2", "step": "nan"}, "zero or negative"),
        ({"start": "1", "end": "2", "step": "0.0001"}, "zero or negative"),
        ({"start": "0", "end": "11001", "step": "1"}, "exceeded maximum resolution of 11,000 points"),
    ],
)
def test_a_bad_range_is_refused_in_text(parameters: dict[str, str], expected: str) -> None:
    with pytest.raises(PrometheusError, match=expected) as caught:
        stretch(asked(**parameters))
    assert caught.value.code == "bad_data"


def test_selectors_are_selectors_and_nothing_more() -> None:
    form = asked(**{"match[]": 'up{job=~"a|b"}'})
    assert [str(matcher) for matcher in form.selectors()[0]] == ['__name__="up"', 'job=~"a|b"']
    assert asked().selectors() == ()


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{a=~".*"}', "up[5m]", "sum(up)", "up +", "up offset 5m", "up @ 1", "1", '"a"', "up{a=~'('}"],
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(PrometheusError, match=r'invalid parameter "match\[\]"') as caught:
        asked(**{"match[]": text}).selectors()
    assert caught.value.code == "bad_data"


def test_limits_are_whole_numbers() -> None:
    assert [asked(limit=text).limit() for text in ("", "0", "7")] == [0, 0, 7]
    assert [asked(limit=text).count("limit") for text in ("", "-1", "3")] == [-1, -1, 3]
    for text in ("x", "1.5", "-1", "9" * 30):
        with pytest.raises(PrometheusError, match="limit"):
            asked(limit=text).limit()
    with pytest.raises(PrometheusError, match="limit must be a number"):
        asked(limit="x").count("limit")


def test_rules_are_picked_by_what_the_parameters_say() -> None:
    wanted = rules_wanted(read("type=ALERT&rule_name[]=A&rule_name[]=B&exclude_alerts=1&group_limit=2"))
    assert (wanted.kind, wanted.names, wanted.with_alerts, wanted.page) == (
        RuleKind.ALERT,
        ("A", "B"),
        False,
        2,
    )
    plain = rules_wanted(read(""))
    assert (plain.kind, plain.with_alerts, plain.page) == (None, True, 0)


@pytest.mark.parametrize(
    "query",
    [
        "type=x",
        "exclude_alerts=maybe",
        "group_limit=0",
        "group_limit=-1",
        "group_limit=x",
        "group_next_token=a",
        "match[]=(",
    ],
)
def test_rules_picked_by_nonsense_are_refused(query: str) -> None:
    with pytest.raises(PrometheusError, match="invalid parameter"):
        rules_wanted(read(query))


@pytest.mark.parametrize(
    ("text", "name"),
    [("job", "job"), ("a.b", "a.b"), ("U__a_2e_b", "a.b"), ("U__a__b", "a_b"), ("U___1F600_", "\U0001f600")],
)
def test_a_label_name_in_a_path_may_be_any_text(text: str, name: str) -> None:
    assert label_name(text) == name


def test_an_escape_of_no_character_is_refused() -> None:
    with pytest.raises(PrometheusError, match="invalid label name"):
        label_name("U___ffffff_")
