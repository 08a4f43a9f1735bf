"""The real app, as `controlplane ui` starts it, in Chromium before a fake server."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from tests.ui import factories
from tests.ui.alerting_factories import alert
from tests.ui.browser import Screen, until
from tests.ui.fake_server import FakeServer

pytestmark = pytest.mark.browser

STUCK = factories.query_id(3)
HOSTILE_ID = factories.query_id(50)


def test_the_fleet_shows_every_query_worst_first_and_loads_nothing_from_elsewhere(screen: Screen) -> None:
    screen.go("/")
    until(lambda: len(screen.rows()) >= 20)
    assert "Failed" in screen.rows()[0]
    assert "orders-enriched" in screen.rows()[0]
    tile = screen.page.locator(".st-key-tile_running button")
    assert tile.inner_text().split() == ["24", "Running"]
    assert screen.foreign == []


#: Counts the elements that a refresh draws paler.
FADES = """() => setInterval(() => {
  window.faded += [...document.querySelectorAll('[data-stale="true"]')].filter(n => getComputedStyle(n).opacity < 1).length
}, 20)"""


def test_a_refresh_moves_nothing_and_the_keyboard_reaches_search_rows_and_help(
    screen: Screen, server: FakeServer
) -> None:
    screen.go("/")
    until(lambda: len(screen.rows()) >= 20)
    table = screen.page.locator(".stBidiComponent table")
    screen.page.keyboard.press("/")
    screen.page.keyboard.press("ArrowDown")
    screen.page.keyboard.press("j")
    table.evaluate("node => { node.marked = true; window.faded = 0 }")
    screen.page.evaluate(FADES)
    place = table.bounding_box()
    before = screen.stamp()
    server.world.queries[3]["reason"] = "caught up"
    until(lambda: screen.stamp() != before and any("caught up" in row for row in screen.rows()))
    assert table.evaluate("node => node.marked === true && node.rows[2] === node.getRootNode().activeElement")
    assert table.bounding_box() == place
    assert screen.page.evaluate("window.faded") == 0
    screen.page.keyboard.press("Shift+?")
    screen.page.get_by_role("dialog").get_by_text("Next or previous row").wait_for()
    screen.page.keyboard.press("Escape")
    screen.page.keyboard.press("Enter")
    screen.page.wait_for_url(f"**/query?query_id={factories.query_id(2)}**")


def test_a_click_on_a_row_leads_to_its_query(screen: Screen) -> None:
    screen.go("/")
    until(lambda: len(screen.rows()) >= 20)
    screen.click_name(2)
    screen.page.wait_for_url(f"**/query?query_id={STUCK}**")
    screen.page.get_by_role("heading", name="sessions").wait_for()
    screen.page.go_back()
    screen.page.get_by_role("heading", name="Fleet").wait_for()


@pytest.mark.parametrize("page", ["/", "/checkpoints"])
def test_after_a_click_no_timer_of_the_page_that_is_left_asks_for_a_rerun(screen: Screen, page: str) -> None:
    """Streamlit would merge it with the change of the page, and the new one may stay blank."""
    sent: list[ClientState] = []
    screen.page.on(
        "websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(_rerun(frame)))
    )
    screen.go(page)
    until(lambda: len(screen.rows()) >= 4)
    screen.click_name(1)
    screen.page.locator(".st-key-checkpoint_panel").wait_for()
    opened = sent[-1].page_script_hash
    leaves = next(place for place, each in enumerate(sent) if each.page_script_hash == opened)
    assert leaves > 0
    assert sent[leaves].fragment_id == ""
    assert {each.page_script_hash for each in sent[leaves:]} == {opened}


def _rerun(frame: bytes) -> ClientState:
    message = BackMsg()
    message.ParseFromString(frame)
    return message.rerun_script


def test_a_viewers_sorting_stays_and_clicks_follow_it(screen: Screen) -> None:
    screen.go("/?app=clicks")
    until(lambda: "sessions" in screen.first_row())
    screen.click_name(-1)
    until(lambda: "dedup-16" in screen.first_row() and screen.page.url.endswith("sort=name"))
    before = screen.stamp()
    until(lambda: screen.stamp() != before)
    assert "dedup-16" in screen.first_row()
    screen.click_name(0)
    screen.page.get_by_role("heading", name="dedup-16").wait_for()


def test_a_link_to_a_query_works_in_a_cold_browser(
    chromium: Any, stage: tuple[FakeServer, str], server: FakeServer
) -> None:
    screen = Screen(chromium.new_page(viewport={"width": 800, "height": 900}), stage[1])
    screen.go(f"/query?query_id={STUCK}&range=6h")
    screen.page.get_by_role("heading", name="sessions").wait_for()
    screen.page.get_by_text("no task has finished for 9 min 40 s").wait_for()
    until(lambda: screen.page.locator('[data-testid="stEChartsChart"]:has(canvas)').count() == 14)
    assert "range=6h" in screen.page.url
    assert screen.page.get_by_role("radio", name="6h").get_attribute("aria-checked") == "true"
    screen.page.close()


def test_filters_live_in_the_address_and_a_tile_toggles_one(screen: Screen) -> None:
    screen.go("/?status=failed&status=lost")
    until(lambda: len(screen.rows()) == 2)
    screen.page.locator(".st-key-tile_lost button").click()
    until(lambda: len(screen.rows()) == 1)
    assert screen.page.url.endswith("?status=failed")


def test_a_restart_is_confirmed_posted_once_and_tracked_to_its_outcome(
    screen: Screen, server: FakeServer
) -> None:
    screen.go(f"/query?query_id={STUCK}")
    screen.page.get_by_role("button", name="Restart").click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_text("1233 so far").wait_for()
    dialog.get_by_label("Reason").fill("memory grows")
    dialog.get_by_role("button", name="Restart").click()
    screen.page.get_by_text("resumed at batch 1234").wait_for()
    dialog.wait_for(state="detached")
    screen.page.get_by_text("Succeeded").first.wait_for()
    ((query_id, body, key),) = server.world.posted
    assert (query_id, body["action"], body["reason"]) == (STUCK, "restart", "memory grows")
    assert len(key) == 32


def test_the_dialog_follows_the_batches_that_the_query_commits(screen: Screen, server: FakeServer) -> None:
    query = server.world.queries[5]
    screen.go(f"/query?query_id={query['query_id']}")
    screen.page.get_by_role("button", name="Restart").click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("half a sen")
    for batch in (7001, 7002):
        query["batch_id"] = batch
        dialog.get_by_text(f"after its last committed batch, {batch} so far").wait_for()
    assert dialog.get_by_label("Reason").input_value() == "half a sen"


def test_hostile_names_and_reasons_are_text_wherever_they_appear(screen: Screen, server: FakeServer) -> None:
    hostile = factories.HOSTILE
    server.world.details[HOSTILE_ID] = {"failure": factories.failure(condition=hostile, advice=hostile)}
    screen.go("/?search=evil")
    until(lambda: len(screen.rows()) == 1)
    assert hostile in screen.rows()[0]
    screen.go("/checkpoints?seek=evil")
    until(lambda: len(screen.rows()) == 1 and hostile in screen.rows()[0])
    screen.go(f"/query?query_id={HOSTILE_ID}&checkpoint=true")
    heading = screen.page.get_by_role("heading", level=1)
    assert heading.inner_text().replace("\u2060", "") == hostile
    screen.page.get_by_text(hostile).first.wait_for()
    screen.page.locator(".st-key-checkpoint_panel").get_by_text(hostile).first.wait_for()
    screen.page.get_by_text("Evidence").first.click()
    screen.page.get_by_role("button", name="Restart").click()
    screen.page.locator(".st-key-start_forecast").get_by_text(hostile).first.wait_for()
    main = screen.page.locator("body")
    assert main.locator('img[src*="evil"], a[href*="evil"], a[href^="javascript"], img[onerror]').count() == 0
    assert screen.foreign == []
    assert screen.alerts == []


def tooltip_text(screen: Screen, chart: str, share: float) -> str:
    """Text of the chart's tooltip at this share of its width."""
    place = screen.page.locator(f".st-key-chart_{chart}")
    place.scroll_into_view_if_needed()
    for row in range(12, 200, 7):
        box = place.bounding_box()
        screen.page.mouse.move(box["x"] + box["width"] * share, box["y"] + row)
        screen.page.wait_for_timeout(60)
        if boxes := place.locator("div[style*='pointer-events: none'], div[style*='position: absolute']"):
            text = " ".join(part for part in boxes.all_inner_texts() if part.strip())
            if text:
                return text
    raise AssertionError(f"no tooltip in {chart}")


def test_hostile_text_is_text_in_alerts_and_in_the_charts(screen: Screen, server: FakeServer) -> None:
    hostile, now = factories.HOSTILE, time.time()
    world = server.world
    failed = factories.failure(condition="C", message=hostile)
    run = factories.run(9, now, started_at=factories.rfc3339(now - 3000), end="failed", failure=failed)
    world.details[STUCK] = {"runs": [run], "sources": [factories.source(description=hostile)]}
    world.details[STUCK]["actions"] = [factories.action(1, now, requested_at=now - 400, actor=hostile)]
    notes = {"summary": hostile, "description": hostile, "runbook_url": "javascript:alert(1)"}
    acknowledged = {"by": hostile, "at": factories.rfc3339(now), "comment": hostile}
    fires = {"query_id": STUCK, "state": "firing", "fired_at": factories.rfc3339(now - 600)}
    world.alerting.alerts = [
        alert(now=now, name=hostile, annotations=notes, acknowledged=acknowledged, **fires)
    ]
    world.series_labels = {"source": hostile[hostile.index("<img") :]}  # long names are cut at their end
    screen.go(f"/query?query_id={STUCK}")
    screen.page.locator(".st-key-firing_alerts").get_by_text(hostile).first.wait_for()
    until(lambda: screen.page.locator('[data-testid="stEChartsChart"]:has(canvas)').count() == 14)
    assert "<img src=x onerror=alert(1)>" in tooltip_text(screen, "timeline", 0.5)
    assert "<img src=x" in tooltip_text(screen, "lag_seconds", 0.5)
    body = screen.page.locator("body")
    assert body.locator('img[src*="evil"], a[href*="evil"], a[href^="javascript"], img[onerror]').count() == 0
    assert body.locator('img[src="x"]').count() == 0
    assert screen.foreign == []
    assert screen.alerts == []


def test_a_pinned_range_is_the_same_in_a_cold_browser_and_stops_the_refresh(
    chromium: Any, stage: tuple[FakeServer, str], server: FakeServer, screen: Screen
) -> None:
    screen.go(f"/query?query_id={STUCK}")
    screen.page.get_by_role("button", name="Pin").click()
    screen.page.get_by_role("button", name="Back to now").wait_for()
    pinned = screen.page.url
    assert "from=" in pinned
    assert "to=" in pinned
    cold = Screen(chromium.new_page(), stage[1]).go(pinned.removeprefix(stage[1]))
    cold.page.get_by_role("button", name="Back to now").wait_for()
    before = cold.stamp()
    time.sleep(7)  # more than a refresh
    assert cold.stamp() == before
    cold.page.get_by_role("button", name="Back to now").click()
    until(lambda: cold.stamp() != before and "from=" not in cold.page.url)
    cold.page.close()


def test_an_alert_at_the_head_of_a_query_leads_to_its_page(screen: Screen, server: FakeServer) -> None:
    fires = alert(name="LagGrowing", query_id=STUCK, state="firing")
    server.world.alerting.alerts = [fires]
    screen.go(f"/query?query_id={STUCK}")
    screen.page.locator(".st-key-firing_alerts").get_by_role("link", name="LagGrowing").click()
    screen.page.wait_for_url(f"**/alerts?alert={fires['fingerprint']}")


def test_labels_live_in_the_address_and_survive_a_reload(screen: Screen, server: FakeServer) -> None:
    server.world.queries[2]["labels"] = {"team": "web"}
    screen.go("/?label=team%3Dweb")
    until(lambda: len(screen.rows()) == 1)
    screen.page.reload()
    until(lambda: len(screen.rows()) == 1)
    assert "sessions" in screen.first_row()
    assert "label=team" in screen.page.url


def test_when_the_server_dies_the_last_data_stays_under_a_banner(screen: Screen, server: FakeServer) -> None:
    screen.go("/")
    until(lambda: len(screen.rows()) >= 20)
    table = screen.page.locator(".stBidiComponent").first
    table.evaluate("node => { node.marked = true }")
    server.stop()
    screen.page.get_by_text("Stale data: the server is unreachable").wait_for()
    assert table.evaluate("node => node.marked === true")
    assert table.evaluate("node => getComputedStyle(node).opacity") == "0.45"
    banner = screen.page.locator(".st-key-stale").inner_text()
    until(lambda: screen.page.locator(".st-key-stale").inner_text() != banner)  # its age is counted
    assert len(screen.rows()) >= 20
    assert "Traceback" not in screen.page.inner_text("body")
    server.start()
    screen.page.get_by_text("Stale data: the server is unreachable").wait_for(
        state="detached", timeout=15_000
    )


def test_the_answers_have_security_headers(screen: Screen) -> None:
    answer = screen.page.goto(screen.address + "/")
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_foreign_host_name_gets_no_connection(stage: tuple[FakeServer, str]) -> None:
    port = int(stage[1].rsplit(":", 1)[1])
    assert b" 101 " in handshake(port, f"127.0.0.1:{port}")
    assert b" 101 " not in handshake(port, "evil.example")


def handshake(port: int, host: str) -> bytes:
    """The first line that the app answers to a websocket upgrade under this host name."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        line.sendall(
            f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        return line.recv(4096).split(b"\r\n")[0]
