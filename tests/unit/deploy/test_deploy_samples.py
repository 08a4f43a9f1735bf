"""The samples in deploy/ are what the guide states of them."""

from __future__ import annotations

from alerts.notify.config import load
from alerts.rules.pack import render_routing
from tests.paths import ROOT

DEPLOY = ROOT / "deploy"


def test_the_sample_of_who_is_reported_is_right_and_keeps_the_inhibitions_that_ship() -> None:
    sample, mistakes = load((DEPLOY / "notify.yaml").read_text())
    shipped, _ = load(render_routing())
    assert mistakes == ()
    assert sample is not None and shipped is not None
    assert sample.inhibit_rules == shipped.inhibit_rules
