"""Series search: live series completely, the past by probes, within limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from alerts.matching.labels import Matcher
from alerts.promql.errors import EvaluationError, LimitExceeded
from alerts.promql.series import Series, SeriesInMemory, SeriesSource, series_of
from controlplane.api import prometheus_series
from controlplane.api.prometheus_series import INCOMPLETE, ONLY_NOW, Reading, find, names, probes, values

NOW = 100_000.0
UP = (Matcher("__name__", "=", "up"),)


@dataclass
class FakeSeries:
    """Series in memory that must be asked for by a metric's name, as those of the past must.

    `most`: seconds at a time that it looks through.
    """

    series: Sequence[Series] = ()
    live_readings: Sequence[Reading] = ()
    asked: list[tuple[float, float]] = field(default_factory=list)
    most: float = float("inf")

    def source(self, now: float) -> SeriesSource:
        return self

    def live(self, now: float) -> Sequence[Reading]:
        return self.live_readings

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        self.asked.append((start, end))
        if end - start > self.most:
            raise LimitExceeded("a lot")
        if not any(m.name == "__name__" and m.operator == "=" for m in matchers):
            raise EvaluationError("say which metric", 1, 1)
        return SeriesInMemory(self.series).select(matchers, start, end)


def up(query: str, *times: float) -> Series:
    return series_of({"__name__": "up", "query": query}, dict.fromkeys(times, 1.0))


def test_without_a_selector_all_that_is_live_is_found_without_empty_labels() -> None:
    series = FakeSeries(
        live_readings=[
            ("up", {"query": "b", "team": ""}, 1.0),
            ("up", {"query": "a"}, 1.0),
            ("down", {}, 0.0),
        ]
    )
    found = find(series, [], NOW - 3600, NOW, NOW)
    assert [dict(each_series) for each_series in found.series] == [
        {"__name__": "down"},
        {"__name__": "up", "query": "a"},
        {"__name__": "up", "query": "b"},
    ]
    assert names(found.series) == ["__name__", "query"]
    assert values(found.series, "query") == ["a", "b"]
    assert values(found.series, "__name__") == ["down", "up"]
    assert series.asked == []


def test_a_selector_finds_what_had_a_sample_in_the_time_and_each_once() -> None:
    series = FakeSeries([up("gone", NOW - 7200), up("here", *range(int(NOW) - 3600, int(NOW), 15))])
    assert values(find(series, [UP, UP], NOW - 3600, NOW, NOW).series, "query") == ["here"]
    assert values(find(series, [UP], NOW - 7260, NOW - 7140, NOW).series, "query") == ["gone"]
    assert find(series, [UP], NOW, NOW - 1, NOW).series == ()


def test_a_sample_at_the_very_start_counts() -> None:
    series = FakeSeries([up("edge", NOW - 60)])
    assert values(find(series, [UP], NOW - 60, NOW, NOW).series, "query") == ["edge"]


def test_a_selector_without_a_metric_reads_live_values_and_warns_about_the_past() -> None:
    series = FakeSeries(live_readings=[("up", {"query": "a"}, 1.0), ("up", {"query": "b"}, 1.0)])
    unnamed = (Matcher("query", "=", "a"),)
    now, past = find(series, [unnamed], NOW - 60, NOW, NOW), find(series, [unnamed], 0.0, NOW - 86400, NOW)
    assert (values(now.series, "query"), now.warnings) == (["a"], ())
    assert (values(past.series, "query"), past.warnings) == (["a"], (ONLY_NOW,))
    assert series.asked == []


def test_a_long_time_is_searched_by_few_probes_newest_first() -> None:
    spans = probes(0.0, 1_000_000.0)
    assert len(spans) == 1 + prometheus_series.MAX_PROBES
    assert spans[0][1] - spans[0][0] == pytest.approx(prometheus_series.RECENT_SECONDS, abs=0.01)
    assert all(end - start <= prometheus_series.PROBE_SECONDS + 0.01 for start, end in spans[1:])
    assert [end for _, end in spans] == sorted((end for _, end in spans), reverse=True)
    assert min(start for start, _ in spans) >= -0.01


@pytest.mark.parametrize(("start", "end"), [(0.0, 300.0), (5.0, 5.0), (599.0, 600.0)])
def test_a_short_time_is_searched_completely(start: float, end: float) -> None:
    assert probes(start, end) == [(start - 0.001, end)]


def test_a_run_of_a_day_ago_is_found_in_a_week() -> None:
    series = FakeSeries([up("long", *[NOW - 86400 - 15 * n for n in range(5760)])])
    assert values(find(series, [UP], NOW - 7 * 86400, NOW, NOW).series, "query") == ["long"]


def test_when_it_takes_long_what_was_found_is_the_answer_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prometheus_series, "SEARCH_SECONDS", -1.0)
    found = find(FakeSeries([up("a", NOW)]), [UP], NOW - 3600, NOW, NOW)
    assert found.warnings == (INCOMPLETE,)


def test_series_beyond_the_limit_are_omitted_but_never_live_ones() -> None:
    series = FakeSeries(
        [up("early", *[NOW - 6600 - n for n in range(0, 600, 15)])],
        live_readings=[("up", {"query": "now"}, 1.0), ("down", {}, 1.0)],
        most=100.0,
    )
    found = find(series, [UP], NOW - 7200, NOW, NOW)
    assert values(found.series, "query") == ["early", "now"]
    assert found.warnings == (INCOMPLETE,)


def test_what_is_live_now_is_no_answer_about_a_past_that_was_too_much() -> None:
    series = FakeSeries(live_readings=[("up", {"query": "now"}, 1.0)], most=-1.0)
    found = find(series, [UP], NOW - 7200, NOW - 3600, NOW)
    assert (found.series, found.warnings) == ((), (INCOMPLETE,))


def test_the_future_holds_nothing() -> None:
    series = FakeSeries([up("a", NOW - 10)])
    find(series, [UP], NOW - 60, NOW + 86400 * 400, NOW)
    assert max(end for _, end in series.asked) == NOW
