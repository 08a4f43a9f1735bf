"""An acknowledgement belongs to one firing of one alert."""

from __future__ import annotations

import pytest

from alerts.acknowledgements import acknowledge, find
from tests.unit.alerts.examples import alert, resolved


def test_an_acknowledgement_covers_that_firing_only() -> None:
    fires = alert(at=1000, query="a")
    seen = acknowledge(fires, "ann", 1010, "on it")
    assert find(fires, [seen]) == seen
    assert find(alert(at=2000, query="a"), [seen]) is None
    assert find(alert(at=1000, query="b"), [seen]) is None
    assert find(resolved(fires, 1100), [seen]) is None


def test_the_newest_acknowledgement_counts() -> None:
    fires = alert()
    first, second = acknowledge(fires, "ann", 1010), acknowledge(fires, "ben", 1020)
    assert find(fires, [second, first]) == second


def test_what_does_not_fire_cannot_be_acknowledged() -> None:
    with pytest.raises(ValueError, match="the alert is resolved"):
        acknowledge(resolved(alert(), 1100), "ann", 1200)
