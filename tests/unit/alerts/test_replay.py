"""Rules played over stored series: the same as evaluating them one by one, bounded, and never seeing too much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest

from alerts.engine import evaluate_group
from alerts.matching.labels import Matcher
from alerts.promql.series import Series, SeriesInMemory, SeriesSource, series_of
from alerts.replay import MAX_EVALUATIONS, Episode, pace, replay
from alerts.rules.loader import load
from alerts.rules.model import RuleGroup
from alerts.rules.pack import render
from alerts.state import Alerts, AlertState

START = 1_795_000_005.0
STEP = 15.0


def groups_of(text: str) -> tuple[RuleGroup, ...]:
    groups, mistakes = load(text, "test")
    assert mistakes == ()
    return groups


def one_rule(expr: str, **fields: str) -> tuple[RuleGroup, ...]:
    more = "".join(f"\n        {name.rstrip('_')}: {value}" for name, value in fields.items())
    return groups_of(f"groups:\n  - name: g\n    rules:\n      - alert: A\n        expr: {expr}{more}\n")


def figures(values: Sequence[float | None], name: str = "m", **labels: str) -> Series:
    reported = {START + n * STEP: value for n, value in enumerate(values) if value is not None}
    return series_of({"__name__": name, **labels}, reported)


def played(groups: Sequence[RuleGroup], *series: Series, slots: int = 40, **options: float) -> list[Episode]:
    found = replay(groups, SeriesInMemory(series), START, START + slots * STEP, STEP, **options)
    assert found.problems == ()
    return list(found.episodes)


def slot(at: float) -> float:
    """The first evaluation at or after a time."""
    return math.ceil(at / STEP) * STEP


def test_an_episode_has_the_times_it_began_fired_and_ended() -> None:
    values = [0.0] * 10 + [7.0] * 10 + [0.0] * 20
    [episode] = played(one_rule("m > 5", for_="1m"), figures(values, app="x"))
    began = slot(START + 10 * STEP)
    assert episode.labels == {"alertname": "A", "app": "x"}
    assert (episode.pending_at, episode.fired_at, episode.value) == (began, began + 60, 7.0)
    assert episode.resolved_at == slot(START + 20 * STEP)


def test_what_fires_at_the_end_has_no_end() -> None:
    [episode] = played(one_rule("m > 5"), figures([7.0] * 41))
    assert episode.resolved_at is None


def test_what_held_at_the_start_is_seen_to_begin_there() -> None:
    [episode] = played(one_rule("m > 5", for_="1m"), figures([7.0] * 41))
    assert episode.pending_at == START


def test_what_never_holds_long_enough_is_no_episode() -> None:
    assert played(one_rule("m > 5", for_="5m"), figures([7.0] * 10 + [0.0] * 31)) == []


def test_an_alert_that_comes_back_is_two_episodes() -> None:
    values = ([0.0] * 5 + [7.0] * 5) * 4
    assert len(played(one_rule("m > 5"), figures(values))) == 4


def test_a_recorded_series_is_read_by_the_rules_after_it_and_by_other_groups() -> None:
    groups = groups_of(
        """
groups:
  - name: reader
    rules:
      - {alert: Far, expr: "max_over_time(doubled[1m]) > 10"}
  - name: writer
    rules:
      - {record: doubled, expr: "m * 2 > 0"}
      - {alert: Near, expr: "doubled > 10"}
"""
    )
    values = [0.0] * 10 + [7.0] * 4 + [None] * 26
    episodes = {group.name: group for group in played(groups, figures(values), lookback=STEP + 1)}
    assert episodes["Near"].fired_at == slot(START + 10 * STEP)
    # The other group is evaluated first at each time: it sees what was recorded one slot before.
    assert episodes["Far"].fired_at == slot(START + 11 * STEP)
    assert episodes["Far"].resolved_at is not None


def test_names_that_the_rules_record_are_not_taken_from_what_is_stored() -> None:
    groups = groups_of(
        """
groups:
  - name: g
    rules:
      - {record: r, expr: m}
      - {alert: A, expr: r > 5}
      - {alert: B, expr: 'ALERTS{alertname="Old"}'}
"""
    )
    stored = (
        figures([1.0] * 41),
        figures([9.0] * 41, name="r"),
        figures([1.0] * 41, name="ALERTS", alertname="Old", alertstate="firing"),
    )
    assert played(groups, *stored) == []


def test_a_rule_may_read_the_alerts_of_another() -> None:
    groups = groups_of(
        "groups: [{name: g, rules: [{alert: A, expr: m > 5}, "
        '{alert: B, expr: \'ALERTS{alertname="A",alertstate="firing"}\'}]}]'
    )
    assert [group.name for group in played(groups, figures([7.0] * 41))] == ["A", "B"]


@pytest.mark.parametrize("expr", ["m @ end() > 5", "m @ start() > 5"])
def test_an_anchor_means_the_moment_of_the_evaluation(expr: str) -> None:
    values = [0.0] * 10 + [7.0] * 31
    [episode] = played(one_rule(f'"{expr}"'), figures(values))
    assert episode.fired_at == slot(START + 10 * STEP)


def test_a_rule_that_fails_at_some_times_is_reported_once_with_their_number() -> None:
    groups = one_rule("m * on () n > 5")
    series = (figures([7.0] * 41), figures([1.0] * 41, name="n", a="1"), figures([1.0] * 10, name="n", a="2"))
    found = replay(groups, SeriesInMemory(series), START, START + 40 * STEP, STEP, lookback=STEP)
    [problem] = found.problems
    assert (problem.rule, problem.first_at) == ("A", START)
    assert problem.count == 10
    [episode] = found.episodes
    assert episode.fired_at == START + 10 * STEP


def test_a_long_time_is_played_with_a_coarser_step() -> None:
    [group] = one_rule("m > 5")
    week = pace(group, 7 * 86400, 15.0)
    assert (week.interval, week.step, week.is_coarser) == (15.0, 45.0, True)
    assert 7 * 86400 / week.step < MAX_EVALUATIONS
    assert not pace(group, 86400, 15.0).is_coarser


def test_it_ends_on_request_and_reports_its_position() -> None:
    looks = count()
    found = replay(
        one_rule("m > 5"),
        SeriesInMemory([figures([7.0] * 41)]),
        START,
        START + 40 * STEP,
        STEP,
        should_continue=lambda: next(looks) < 12,
    )
    assert START < found.until < START + 40 * STEP
    assert found.evaluations == round((found.until - START) / STEP) + 1


@pytest.mark.parametrize("limit", ["MAX_PRECOMPUTED", "MIN_PRECOMPUTED_SLOTS"])
def test_what_is_too_much_to_know_ahead_is_evaluated_all_the_same(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = ([0.0] * 5 + [7.0] * 5) * 4
    typical = played(one_rule("m > 5"), figures(values))
    monkeypatch.setattr(f"alerts.replay.{limit}", 4)
    if limit == "MIN_PRECOMPUTED_SLOTS":
        monkeypatch.setattr("alerts.replay.MAX_PRECOMPUTED", 2)
    assert played(one_rule("m > 5"), figures(values)) == typical
    assert len(typical) == 4


def test_no_rules_are_no_work() -> None:
    found = replay((), SeriesInMemory([]), START, START + 1e9, STEP)
    assert (found.episodes, found.evaluations, found.until) == ((), 0, START + 1e9)


def _one_by_one(groups: Sequence[RuleGroup], source: SeriesSource, start: float, end: float) -> list[Episode]:
    """The plain way: one evaluation after the other, nothing known ahead."""
    episodes: dict[tuple[str, int, str, float], Episode] = {}
    for group in groups:
        every = group.interval or STEP
        states: tuple[Alerts, ...] = ()
        for number in range(math.ceil(start / every), math.floor(end / every) + 1):
            result = evaluate_group(group, source, states, number * every)
            states = result.states
            for place, rule in enumerate(result.rules):
                for alert in rule.alerts.values():
                    if alert.fired_at is None or alert.state is AlertState.PENDING:
                        continue
                    key = (group.key, place, alert.fingerprint, alert.fired_at)
                    fired = episodes.get(key)
                    value = fired.value if fired else alert.value
                    episodes[key] = Episode(
                        alert.rule, group.name, alert.labels, alert.active_at, alert.fired_at, value,
                        alert.resolved_at,
                    )  # fmt: skip
    return sorted(episodes.values(), key=lambda episode: (episode.fired_at, episode.name))


class Wild:
    """A source over series that come, go and jump, by a fixed seed."""

    def __init__(self, seed: int, slots: int):
        chance = np.random.default_rng(seed)
        self._series = [
            self._made(chance, name, query, slots, labels)
            for query in ("orders", "clicks", "enrich")
            for name, labels in (
                ("spark_streaming_query_status", {"status": "failed"}),
                ("spark_streaming_query_status", {"status": "lagging"}),
                ("spark_streaming_query_status", {"status": "lost"}),
                ("spark_streaming_source_lag_rows", {"source": "kafka"}),
                ("spark_streaming_source_lag_seconds", {"source": "kafka"}),
                ("spark_streaming_batch_duration_seconds", {}),
                ("spark_streaming_trigger_interval_seconds", {}),
                ("spark_streaming_query_starts_total", {}),
                ("spark_streaming_query_start_timestamp_seconds", {}),
            )
        ]

    def _made(
        self, chance: np.random.Generator, name: str, query: str, slots: int, labels: dict[str, str]
    ) -> Series:
        named = {"__name__": name, "app": "shop", "query": query, "query_id": query, **labels}
        if "status" in name:
            values = np.repeat(chance.integers(0, 2, slots // 20 + 1), 20)[:slots].astype(float)
        elif name.endswith("_total"):
            values = np.cumsum(chance.integers(0, 2, slots) * (chance.random(slots) > 0.9)).astype(float)
        elif name.endswith("timestamp_seconds"):
            values = np.full(slots, START - 3600.0)
        else:
            values = np.abs(np.cumsum(chance.normal(20, 200, slots)))
        there = np.repeat(chance.random(slots // 30 + 1) > 0.15, 30)[:slots]
        times = START + STEP * np.arange(slots)
        return Series(named, times[there], values[there])

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        return SeriesInMemory(self._series).select(matchers, start, end)


def assert_looking_ahead_gives_what_plain_evaluations_give(seed: int, scale: float, slots: int) -> None:
    groups, source = groups_of(render(scale)), Wild(seed, slots)
    found = replay(groups, source, START, START + slots * STEP, STEP, chunk=20)
    plain = _one_by_one(groups, source, START, START + slots * STEP)
    assert len({item.name for item in plain}) >= 3
    ordered = sorted(
        found.episodes, key=lambda episode: (episode.fired_at, episode.name, sorted(episode.labels.items()))
    )
    assert ordered == sorted(plain, key=lambda item: (item.fired_at, item.name, sorted(item.labels.items())))


def test_looking_ahead_gives_what_one_evaluation_after_the_other_gives() -> None:
    assert_looking_ahead_gives_what_plain_evaluations_give(seed=0, scale=0.5, slots=60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2))
def test_looking_ahead_for_longer_gives_what_one_evaluation_after_the_other_gives(seed: int) -> None:
    assert_looking_ahead_gives_what_plain_evaluations_give(seed, scale=0.2, slots=120)
