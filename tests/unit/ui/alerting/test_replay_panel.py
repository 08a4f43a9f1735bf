"""A rule of the API as a rule file, and the sentence on what a replay found."""

import pytest

from alerts.rules import loader
from tests.ui import alerting_factories as factories
from ui.alerting import replay_panel


def test_the_file_has_the_rule_with_all_its_clauses() -> None:
    found = factories.rule()
    text = replay_panel.rule_file(found, factories.group("g", [found]))
    groups, mistakes = loader.load(text)
    assert "expr: |" in text
    assert mistakes == ()
    (rule,) = groups[0].rules
    assert (rule.name, rule.expr.split(), rule.for_) == ("LagGrowing", found["expr"].split(), 600.0)
    assert (rule.keep_firing_for, dict(rule.labels)) == (1200.0, found["labels"])
    assert dict(rule.annotations) == found["annotations"]


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "not have fired"), (1, "have fired once"), (1200, "1,200 times")]
)
def test_the_sentence_counts_the_episodes(count: int, expected: str) -> None:
    times = {"start": factories.rfc3339(0.0), "until": factories.rfc3339(3600.0)}
    assert expected in replay_panel.sentence({"episodes": [{}] * count, **times})
