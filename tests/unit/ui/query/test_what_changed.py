"""The list of what changed before the trouble of a query."""

from __future__ import annotations

from ui.query import what_changed

FOUND = {
    "before": "2026-11-22T10:00:00Z",
    "changes": [
        {"at": "2026-11-22T10:00:00Z", "kind": "input", "sentence": "Four times the rows."},
        {"at": "2026-11-22T10:00:20Z", "kind": "start", "sentence": "Run b started."},
        {"at": "2026-11-22T09:57:30Z", "kind": "label", "sentence": "Label version was 1 and is 2."},
    ],
}


def test_each_change_has_its_distance_from_the_trouble() -> None:
    assert what_changed.listed(FOUND) == [
        ("Input", "Four times the rows."),
        ("at that time", "Run b started."),
        ("2 min 30 s before", "Label version was 1 and is 2."),
    ]


def test_alerts_of_a_query_that_runs_date_its_trouble() -> None:
    alerts = [{"fired_at": "2026-11-22T10:05:00+00:00"}, {"fired_at": "2026-11-22T10:01:00Z"}, {}]
    assert what_changed.first_fired(alerts) == "2026-11-22T10:01:00Z"
    assert what_changed.first_fired([{}]) is None
