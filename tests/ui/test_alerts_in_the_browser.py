"""The Alerts and Rules pages of the real app in Chromium before the fake server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ui import alerting_factories as factories
from tests.ui.browser import Screen, until
from tests.ui.fake_server import FakeServer

pytestmark = pytest.mark.browser


def alert(server: FakeServer, name: str) -> dict[str, Any]:
    return next(alert for alert in server.world.alerting.alerts if alert["name"].startswith(name))


def click_cell(screen: Screen, row: int, x: int) -> None:
    box = screen.page.locator('[data-testid="stDataFrame"] canvas').first.bounding_box()
    screen.page.mouse.click(box["x"] + x, box["y"] + 33 * (row + 1.5))


def test_the_view_and_the_filters_live_in_the_address_and_survive_a_reload(screen: Screen) -> None:
    screen.go("/alerts?view=history&period=7d&severity=critical")
    until(lambda: len(screen.rows()) == 2)
    screen.page.get_by_placeholder("Search name").fill("hangs")
    until(lambda: len(screen.rows()) == 1 and "words=hangs" in screen.page.url)
    screen.page.reload()
    until(lambda: len(screen.rows()) == 1 and "Stuck" in screen.first_row())
    assert screen.page.get_by_role("radio", name="7d").get_attribute("aria-checked") == "true"
    for part in ("view=history", "period=7d", "severity=critical", "words=hangs"):
        assert part in screen.page.url


def test_a_tile_changes_the_view_and_keeps_the_filters(screen: Screen) -> None:
    screen.go("/alerts?app=orders")
    until(lambda: len(screen.rows()) == 1)
    screen.page.locator(".st-key-tile_suppressed button").click()
    until(lambda: "Overrun" in screen.first_row())
    assert "view=suppressed" in screen.page.url and "app=orders" in screen.page.url
    assert len(screen.rows()) == 1


def test_a_click_on_a_name_shows_the_alert_and_another_page_is_one_click_away(
    screen: Screen, server: FakeServer
) -> None:
    screen.go("/alerts")
    until(lambda: len(screen.rows()) == 4)
    click_cell(screen, 2, 270)
    screen.page.get_by_role("heading", name="LagGrowing").wait_for()
    assert f"alert={alert(server, 'LagGrowing')['fingerprint']}" in screen.page.url
    runbook = screen.page.get_by_role("link", name="Runbook")
    assert runbook.get_attribute("href") == "https://runbooks.example/LagGrowing.md"
    assert "noreferrer" in runbook.get_attribute("rel")
    screen.page.get_by_role("link", name="Open query").click()
    screen.page.get_by_role("heading", name="pageviews-to-lake").wait_for()


def test_an_alert_is_acknowledged_with_a_comment(screen: Screen, server: FakeServer) -> None:
    screen.go(f"/alerts?alert={alert(server, 'LagGrowing')['fingerprint']}")
    screen.page.get_by_role("button", name="Acknowledge").click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_label("Comment").fill("adding executors")
    before = screen.stamp()
    until(lambda: screen.stamp() != before)  # a refresh takes neither the dialog nor what was typed
    assert dialog.get_by_label("Comment").input_value() == "adding executors"
    dialog.get_by_role("button", name="Acknowledge").click()
    dialog.wait_for(state="detached")
    screen.page.get_by_text("adding executors").first.wait_for()
    assert [posted["comment"] for posted in server.world.alerting.posted] == ["adding executors"]
    assert screen.page.get_by_role("button", name="Acknowledge").is_disabled()


def test_a_silence_is_prefilled_and_moves_the_alert_to_the_silenced(
    screen: Screen, server: FakeServer
) -> None:
    lag = alert(server, "LagGrowing")
    screen.go(f"/alerts?alert={lag['fingerprint']}")
    screen.page.get_by_role("button", name="Silence", exact=True).click()
    dialog = screen.page.get_by_role("dialog")
    typed = dialog.get_by_role("textbox", name="Matchers")
    wanted = ['alertname="LagGrowing"', 'app="clicks"', f'query_id="{lag["query_id"]}"']
    until(lambda: typed.input_value().splitlines() == wanted)
    dialog.get_by_text("Covers 1 firing alert now").wait_for()
    typed.fill('alertname=~"LagGrowing|Stuck"')
    typed.press("Control+Enter")
    dialog.get_by_text("Covers 2 firing alerts now").wait_for()
    dialog.get_by_role("radio", name="4h").click()
    dialog.get_by_label("Comment").fill("brokers move")
    dialog.get_by_role("button", name="Silence", exact=True).click()
    dialog.wait_for(state="detached")
    until(lambda: screen.page.locator(".st-key-tile_suppressed").inner_text().split() == ["4", "Suppressed"])
    (posted,) = server.world.alerting.posted
    assert (posted["matchers"], posted["duration_seconds"]) == (['alertname=~"LagGrowing|Stuck"'], 14_400)
    assert posted["comment"] == "brokers move"


def test_a_silence_is_expired_after_a_confirmation(screen: Screen, server: FakeServer) -> None:
    identity = server.world.alerting.silences[0]["id"]
    screen.go("/alerts?view=silences")
    screen.page.locator(f".st-key-expire_{identity} button").click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_text("1 firing alert notifies again.").wait_for()
    dialog.get_by_role("button", name="Expire").click()
    dialog.wait_for(state="detached")
    until(lambda: screen.page.locator(".st-key-tile_silences").inner_text().split() == ["0", "Silences"])
    assert server.world.alerting.posted == [{"expire": identity}]


def test_a_refresh_keeps_the_table_and_the_detail(screen: Screen, server: FakeServer) -> None:
    screen.go(f"/alerts?alert={alert(server, 'Stuck')['fingerprint']}")
    until(lambda: len(screen.rows()) == 4)
    table = screen.page.locator('[data-testid="stDataFrame"]').first
    panel = screen.page.locator(".st-key-alert_detail")
    table.evaluate("node => { node.marked = true }")
    panel.evaluate("node => { node.marked = true }")
    before = screen.stamp()
    alert(server, "QueryFailed")["annotations"]["summary"] = "another summary"
    alert(server, "Stuck")["reason"] = "another reason"
    until(lambda: screen.stamp() != before and "another summary" in screen.first_row())
    panel.get_by_text("another reason").wait_for()
    assert table.evaluate("node => node.marked === true")
    assert panel.evaluate("node => node.marked === true")


def test_when_the_server_dies_the_alerts_stay_under_a_banner_and_it_goes_when_it_is_back(
    screen: Screen, server: FakeServer
) -> None:
    screen.go(f"/alerts?alert={alert(server, 'Stuck')['fingerprint']}")
    until(lambda: len(screen.rows()) == 4)
    table = screen.page.locator('[data-testid="stDataFrame"]').first
    table.evaluate("node => { node.marked = true }")
    server.stop()
    screen.page.get_by_text("Stale data: the server is unreachable").wait_for()
    assert table.evaluate("node => node.marked === true")
    assert len(screen.rows()) == 4
    screen.page.locator(".st-key-alert_detail").get_by_text("sessions of clicks hangs").wait_for()
    server.start()
    screen.page.get_by_text("Stale data: the server is unreachable").wait_for(
        state="detached", timeout=15_000
    )


def test_hostile_alerts_silences_and_rules_are_text_wherever_they_appear(
    screen: Screen, server: FakeServer
) -> None:
    fake, trick = server.world.alerting, f"{factories.HOSTILE} <script>alert('x')</script>"
    hostile = alert(server, ":material")
    fake.notes[0] |= {"fingerprints": [hostile["fingerprint"]], "reason": trick, "receiver": trick}
    fake.silences[0] |= {"comment": trick, "created_by": trick, "text": f'{{team="{trick}"}}'}
    fake.groups[0]["rules"].append(
        factories.rule(trick, labels={"team": trick}, expr=trick, error=trick, health="err")
    )
    shown = screen.go(f"/alerts?alert={hostile['fingerprint']}").page.locator(".st-key-alert_detail")
    shown.get_by_text(hostile["annotations"]["description"]).wait_for()
    shown.get_by_text("javascript:alert('runbook')").wait_for()
    shown.get_by_text(trick).first.wait_for()
    link = shown.get_by_role("link", name="Open query")
    link.wait_for()
    assert shown.get_by_role("link").count() == 1
    assert link.evaluate("link => link.href.startsWith(`${location.origin}/query?query_id=`)")
    assert_inert(screen)
    screen.page.get_by_role("button", name="Silence", exact=True).click()
    screen.page.get_by_role("dialog").get_by_text("Covers 1 firing alert").wait_for()
    assert_inert(screen)
    screen.go("/alerts?view=silences").page.get_by_text(trick).first.wait_for()
    screen.page.locator(f".st-key-expire_{fake.silences[0]['id']} button").click()
    screen.page.get_by_role("dialog").get_by_text(trick).first.wait_for()
    assert_inert(screen)
    screen.go("/alerts?view=notifications")
    until(lambda: any(trick in row for row in screen.rows()))
    assert_inert(screen)
    screen.go("/rules").page.get_by_text("streaming-progress").wait_for()
    until(lambda: trick in screen.page.inner_text("body").replace("\u2060", ""))
    assert_inert(screen)


def assert_inert(screen: Screen) -> None:
    """No text from others became an element, was fetched, ran, or reorders a line."""
    body = screen.page.locator("body")
    link = 'a[href*="evil"]:not([href*="/alerts?view=history&words="])'  # the search for a rule's own alerts
    tricks = f'img[src*="evil"], {link}, a[href^="javascript"], img[onerror], iframe[src*="evil"]'
    assert body.locator(tricks).count() == 0
    assert "\u202e" not in body.inner_text()
    assert screen.foreign == []
    assert screen.alerts == []


def test_rules_lead_to_their_alerts(screen: Screen) -> None:
    screen.go("/rules?rule_state=firing&find=hangs")
    screen.page.get_by_text("No rule matches the filters.").wait_for()
    screen.page.get_by_placeholder("Search name").fill("stuck")
    screen.page.get_by_test_id("stPageLink-NavLink").get_by_text("1 firing").first.click()
    screen.page.get_by_role("heading", name="Alerts").wait_for()
    until(lambda: len(screen.rows()) == 1 and "sessions" in screen.first_row())
    assert "words=Stuck" in screen.page.url


def test_a_refresh_keeps_the_rules_in_place(screen: Screen, server: FakeServer) -> None:
    screen.go("/rules")
    card = screen.page.locator('[class*="st-key-rule_streaming"]').nth(3)
    card.evaluate("node => { node.marked = true }")
    before = screen.stamp()
    server.world.alerting.groups[0]["rules"][0]["error"] = "out of memory"
    until(lambda: screen.stamp() != before)
    screen.page.get_by_text("out of memory").wait_for()
    assert card.evaluate("node => node.marked === true")


def test_a_search_on_one_page_does_not_carry_over_to_the_next(screen: Screen) -> None:
    screen.go("/actions?words=nothing")
    screen.page.get_by_text("No action matches the filters.").wait_for()
    screen.page.get_by_role("link", name="Alerts").click()
    until(lambda: len(screen.rows()) == 4)
    assert "words" not in screen.page.url
