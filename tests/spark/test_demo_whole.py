"""The whole of `controlplane demo` for real: each trouble shows its status and its alert, the healthy none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.demo.scenarios import TROUBLES
from tests.spark.demonstration import FIRST_FIGURES, Demo, expected_pages, expected_statuses

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.alone]

#: The state must have grown for three minutes; the last driver starts within the first.
ALL_TROUBLES = 330
HEALTHY = {trouble.query for trouble in TROUBLES if trouble.is_healthy}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    begun = Demo(tmp_path_factory.mktemp("demo"))
    begun.until(begun.shows_figures, FIRST_FIGURES, begun.queries)
    yield begun
    begun.close()


def test_each_trouble_shows_its_status_and_pages_with_its_alert_at_the_same_time(demo: Demo) -> None:
    statuses, pages = expected_statuses(TROUBLES), expected_pages(TROUBLES)

    def missing() -> dict[str, object]:
        shown, paging = demo.statuses(), demo.pages()
        found: dict[str, object] = {
            name: (shown.get(name), status) for name, status in statuses.items() if shown.get(name) != status
        }
        return found | {
            name: (paging.get(name), pages.get(name))
            for name in pages.keys() | paging.keys()
            if paging.get(name) != pages.get(name)
        }

    demo.until(lambda: not missing(), ALL_TROUBLES, missing)


def test_no_healthy_query_had_an_alert_at_any_time(demo: Demo) -> None:
    episodes = demo.call("alerts/history?limit=1000")["alerts"]
    assert {episode["name"] for episode in episodes} >= {"CrashLoop", "StateGrowthWithoutEviction"}
    assert [(episode["query"], episode["name"]) for episode in episodes if episode["query"] in HEALTHY] == []
