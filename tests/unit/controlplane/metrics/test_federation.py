"""Samples as text: only what is selected, escaped, with external labels."""

from __future__ import annotations

from alerts.matching.labels import Matcher
from controlplane.metrics.federation import exposition

SAMPLES = [
    ("b_total", {"app": 'a"\n\\', "empty": ""}, 2.0),
    ("a", {"site": "own"}, float("inf")),
    ("no.name", {"label.x": "1"}, 0.5),
    ("other", {}, 1.0),
]


def test_the_selected_samples_are_written_with_their_time() -> None:
    selectors = [[Matcher("__name__", "=~", "a|b.*")], [Matcher("label.x", "=", "1")]]
    assert exposition(SAMPLES, selectors, {"site": "fra"}, 12.3456).decode().splitlines() == [
        "# TYPE a untyped",
        'a{site="own"} +Inf 12346',
        "# TYPE b_total untyped",
        'b_total{app="a\\"\\n\\\\",site="fra"} 2 12346',
        '# TYPE "no.name" untyped',
        '{"no.name","label.x"="1",site="fra"} 0.5 12346',
    ]
