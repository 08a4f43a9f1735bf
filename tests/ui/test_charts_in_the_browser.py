"""The Query page's charts in a real browser: one cursor, a range by a drag, a tooltip that stays."""

import re
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.ui import factories
from tests.ui.browser import Screen, until
from tests.ui.fake_server import FakeServer
from ui.kit import charts, units

pytestmark = pytest.mark.browser
QUERY = factories.query_id(3)
BANDS = ".chart-range > div"


@pytest.fixture
def page(screen: Screen, server: FakeServer) -> Any:
    """The Query page with its charts drawn."""
    screen.go(f"/query?query_id={QUERY}")
    until(lambda: screen.page.locator('[data-testid="stEChartsChart"]:has(canvas)').count() == 14)
    screen.page.locator(".st-key-chart_rates").scroll_into_view_if_needed()
    return screen.page


def at(page: Any, chart: str, share: float) -> tuple[float, float]:
    """The place at this share of a plot's width."""
    box = page.locator(f".st-key-chart_{chart} canvas").first.bounding_box()
    left, right = charts.MARGINS["left"], charts.MARGINS["right"]
    return box["x"] + left + share * (box["width"] - left - right), box["y"] + box["height"] / 2


def chosen(page: Any) -> tuple[float, float] | None:
    """The range in the address."""
    given = parse_qs(urlsplit(page.evaluate("location.href")).query)
    if not {"from", "to"} <= set(given):
        return None
    start, end = units.moment(given["from"][0]), units.moment(given["to"][0])
    assert start is not None and end is not None
    return start, end


def drag(page: Any, chart: str, start: float, end: float) -> None:
    page.mouse.move(*at(page, chart, start))
    page.mouse.down()
    page.mouse.move(*at(page, chart, (start + end) / 2))
    page.mouse.move(*at(page, chart, end))
    page.mouse.up()


def test_the_cursor_of_one_chart_is_drawn_in_all_others(page: Any) -> None:
    page.mouse.move(*at(page, "rates", 0.4))
    page.mouse.move(*at(page, "rates", 0.5))
    until(lambda: page.locator(BANDS).count() == 13)
    lines = {round(box.bounding_box()["x"]) for box in page.locator(BANDS).all()}
    assert any(abs(at(page, "durations", 0.5)[0] - x) <= 1 for x in lines)
    assert any(abs(at(page, "timeline", 0.5)[0] - x) <= 1 for x in lines)
    page.mouse.move(10, 10)
    until(lambda: page.locator(BANDS).count() == 0)


def test_a_drag_chooses_the_range_of_all_charts_and_a_double_click_leads_back(page: Any) -> None:
    now = time.time()
    drag(page, "rates", 0.8, 0.5)
    page.get_by_role("button", name="Back to now").wait_for()
    start, end = chosen(page) or (0.0, 0.0)
    assert abs(start - (now - 450)) < 20
    assert abs(end - (now - 180)) < 20
    until(lambda: page.locator(".st-key-chart_rates canvas").count() > 0)
    drag(page, "durations", 0.0, 0.5)
    until(lambda: chosen(page) not in (None, (start, end)))
    second = chosen(page) or (0.0, 0.0)
    assert abs(second[0] - start) < 2
    assert abs(second[1] - (start + end) / 2) < 3
    page.mouse.dblclick(*at(page, "durations", 0.5))
    until(lambda: chosen(page) == (start, end))
    page.mouse.dblclick(*at(page, "durations", 0.5))
    until(lambda: chosen(page) is None)


def test_escape_ends_a_drag_and_a_click_chooses_no_range(page: Any) -> None:
    page.mouse.move(*at(page, "rates", 0.2))
    page.mouse.down()
    page.mouse.move(*at(page, "rates", 0.6))
    until(lambda: page.locator(BANDS).count() == 14)
    page.keyboard.press("Escape")
    page.mouse.up()
    page.mouse.click(*at(page, "rates", 0.3))
    page.locator(".st-key-batch_explorer").wait_for()
    assert chosen(page) is None


def test_a_click_opens_the_batch_of_that_time(page: Any) -> None:
    now = time.time()
    page.mouse.click(*at(page, "rates", 0.5))
    box = page.locator(".st-key-batch")
    box.wait_for()
    until(lambda: 0 < (box.bounding_box() or {"y": -1})["y"] < page.viewport_size["height"])
    shown = box.locator("input")
    until(lambda: shown.input_value() != "")
    first = shown.input_value()
    reports = factories.series(now, 90)["progress"]
    near = [p["batch_id"] for p in reports if abs((units.moment(p["at"]) or 0.0) - (now - 450)) < 30]
    assert any(first.startswith(f"Batch {number}, ") for number in near), first
    page.locator(".st-key-chart_durations").scroll_into_view_if_needed()
    page.mouse.click(*at(page, "durations", 0.9))
    until(lambda: shown.input_value() != first)
    page.locator(".st-key-chart_durations").scroll_into_view_if_needed()
    page.mouse.dblclick(*at(page, "durations", 0.2))
    page.wait_for_timeout(600)
    assert chosen(page) is None


def test_a_refresh_keeps_the_tooltip(page: Any, screen: Screen) -> None:
    tooltip = page.locator(".st-key-chart_rates div", has_text=re.compile("input rate")).first
    page.mouse.move(*at(page, "rates", 0.9))
    page.mouse.move(*at(page, "rates", 0.7))
    tooltip.wait_for()
    before = screen.stamp()
    until(lambda: screen.stamp() != before)
    page.wait_for_timeout(600)  # the charts are drawn after the time
    until(tooltip.is_visible)
