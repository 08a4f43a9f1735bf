"""The tasks of a night on call, each done in a browser on the running demonstration.

A task starts on the Fleet page or on the page that an alert's link opens, and ends when its question is answered on the
screen. `OnCall` counts clicks and seconds; typing counts as no click.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.spark.demonstration import Demo
from tests.ui.browser import until

#: Clicks at most: from the Fleet page, and from the page that an alert's link opens.
FROM_FLEET, FROM_ALERT = 3, 2


class OnCall:
    """A person at the browser: opens a first page, then clicks."""

    def __init__(self, page: Any, address: str, demo: Demo):
        self.page, self.address, self.demo = page, address, demo
        self.clicks, self._began = 0, 0.0

    def open(self, path: str) -> None:
        """Open the first page; the clicks and seconds of the task begin when it is drawn."""
        self.page.goto(self.address + path)
        self.page.get_by_text("as of").first.wait_for()
        self.page.locator('[data-testid="stSkeleton"]').first.wait_for(state="detached")
        self.clicks, self._began = 0, time.monotonic()

    def seconds(self) -> float:
        """Since the first page was drawn."""
        return time.monotonic() - self._began

    def click(self, name: str | re.Pattern[str], role: str = "button", within: Any = None) -> None:
        """Click the first element with this role and name."""
        (within or self.page).get_by_role(role, name=name).first.click()
        self.clicks += 1

    def click_at(self, place: Any) -> None:
        """Click this element."""
        place.first.click()
        self.clicks += 1

    def read(self, text: str | re.Pattern[str]) -> str:
        """The text of the first element that shows it, once it does."""
        place = self.page.get_by_text(text).first
        place.wait_for()
        return str(place.inner_text())

    def row(self, name: str) -> None:
        """Open a row of the Fleet page."""
        self.click(name, "link")
        self.page.get_by_role("heading", name=name, level=1).wait_for()

    def alert(self, name: str) -> None:
        """Start at the link of a firing alert's notification."""
        found = self.demo.call(f"alerts?state=firing&name={name}")["alerts"]
        (alert, *_) = [each for each in found if each["name"] == name]
        self.open(f"/alerts?alert={alert['fingerprint']}")
        self.page.get_by_role("heading", name=name).wait_for()


@dataclass(frozen=True)
class Task:
    """A question of the night and how it is answered. `at_most`: clicks."""

    question: str
    answer: Callable[[OnCall], None]
    at_most: int


def worst_query(night: OnCall) -> None:
    night.open("/")
    row = night.page.locator("tbody tr").first
    assert re.search("Failed|Lost|Stuck|Unreachable", row.inner_text())
    assert len(row.locator("td.wide").inner_text()) > 20


def what_changed(night: OnCall) -> None:
    night.open("/")
    night.row("payments_poison")
    night.read("What changed")


def acknowledge(night: OnCall) -> None:
    night.alert("StateGrowthWithoutEviction")
    night.click("Acknowledge")
    night.click("Acknowledge", within=night.page.get_by_role("dialog"))
    night.read(re.compile("acknowledged by|Acknowledged"))
    until(lambda: night.demo.call("alerts?state=firing")["alerts"] != [] and _acknowledged(night))


def _acknowledged(night: OnCall) -> bool:
    found = night.demo.call("alerts?state=firing")["alerts"]
    return any(each["name"] == "StateGrowthWithoutEviction" and each["acknowledged"] for each in found)


def silence(night: OnCall) -> None:
    found = night.demo.call("alerts?state=firing")["alerts"]
    (alert, *_) = [each for each in found if each["name"] == "WatermarkStuck"]
    night.open(f"/alerts?alert={alert['fingerprint']}&silence=true")  # the link of a notification
    dialog = night.page.get_by_role("dialog")
    night.click("2h", "radio", dialog)
    night.click("Silence", within=dialog)
    until(lambda: bool(night.demo.call("silences?active=true")["silences"]))


def who_was_notified(night: OnCall) -> None:
    night.alert("QueryFailed")
    night.read("Notifications")
    assert night.page.get_by_text(re.compile("webhook|default|Nobody|not sent|no integration")).count()


def restart(night: OnCall) -> None:
    night.open("/")
    night.row("orders_by_minute")
    night.click("Restart")
    dialog = night.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("rehearsal")
    night.click("Restart", within=dialog)
    night.read(re.compile("resumed at batch|committed batch|first trigger", re.IGNORECASE))


def slow_batch(night: OnCall) -> None:
    night.open("/")
    night.row("statements_late")
    night.click_at(night.page.get_by_text("Slowest batches", exact=True))
    night.page.locator(".st-key-batch_explorer").wait_for()
    night.read(re.compile("Most of its time|longer than|Phase|took"))


def state_limit(night: OnCall) -> None:
    night.open("/")
    night.row("visits_growing")
    night.page.locator(".st-key-capacity_panel").wait_for()
    night.click_at(night.page.locator(".st-key-capacity_panel").get_by_text("Details"))
    night.read(re.compile("State|heap", re.IGNORECASE))


def compare(night: OnCall) -> None:
    night.open("/")
    night.row("orders_copy")
    night.click_at(night.page.get_by_role("combobox", name=re.compile("Compare")))
    night.click("orders_by_minute", "option")
    night.read("Compared with")


def one_team(night: OnCall) -> None:
    night.open("/")
    night.page.get_by_placeholder("Search name").first.fill('{app="demo-billing"}')
    until(lambda: _apps(night) == {"demo-billing"})


def _apps(night: OnCall) -> set[str]:
    return {text.strip() for text in night.page.locator("tbody tr td.title small").all_inner_texts()}


def runbook(night: OnCall) -> None:
    night.alert("WatermarkStuck")
    link = night.page.get_by_role("link", name="Runbook").first
    with night.page.context.expect_page() as opened:
        link.click()
    night.clicks += 1
    opened.value.get_by_role("heading").first.wait_for()
    opened.value.close()  # back on the alert
    night.read("WatermarkStuck")


def share(night: OnCall) -> None:
    night.open("/")
    night.click(re.compile("Failed"))
    until(lambda: "status=failed" in night.page.evaluate("location.href"))
    wanted = night.page.locator("tbody tr td.title a").all_inner_texts()
    other = night.page.context.new_page()
    other.goto(night.page.evaluate("location.href"))
    other.locator("tbody tr").first.wait_for()
    until(lambda: other.locator("tbody tr td.title a").all_inner_texts() == wanted)
    other.close()


def yesterday(night: OnCall) -> None:
    night.open("/")
    night.row("orders_copy")
    night.click("From – to")
    night.click(re.compile("^Show$"))
    until(lambda: "from=" in night.page.evaluate("location.href"))


def export(night: OnCall) -> None:
    night.open("/")
    night.row("orders_copy")
    chart = night.page.locator(".st-key-chart_rates")
    chart.locator("canvas").first.wait_for()
    chart.evaluate("chart => chart.scrollIntoView({block: 'center'})")  # not below the page's head
    chart.locator("canvas").first.hover()
    toolbar = chart.get_by_role("button", name="Show data").first  # shown while the pointer is on the chart
    toolbar.dispatch_event("click")
    with night.page.expect_download() as kept:
        chart.get_by_role("button", name="Download as CSV").first.dispatch_event("click")
    night.clicks += 2
    assert len(kept.value.path().read_text().splitlines()) > 2


def will_it_restart(night: OnCall) -> None:
    night.open("/")
    night.row("balances_damaged")
    panel = night.page.locator(".st-key-checkpoint_panel")
    until(lambda: bool(re.search("Broken", panel.inner_text())))


def restart_application(night: OnCall) -> None:
    night.open("/?app=demo-orders&status=running")
    night.click(re.compile("^Act on"))
    dialog = night.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("new credentials")
    night.click("Restart", within=dialog)
    night.read(re.compile(r"Restart of \d"))


def cost_of_restart(night: OnCall) -> None:
    night.open("/")
    night.row("clicks_slow")
    night.click("Restart")
    dialog = night.page.get_by_role("dialog")
    until(lambda: bool(re.search("(?i)catch up|again|backlog", dialog.inner_text())))


def unwell_drivers(night: OnCall) -> None:
    night.open("/")
    night.click("Applications", "link")
    night.page.get_by_role("heading", name="Drivers").wait_for()


def server(night: OnCall) -> None:
    night.open("/")
    night.click("Server", "link")
    night.read(re.compile(r"All stages keep up|Slow:"))


def test_receiver(night: OnCall) -> None:
    night.open("/")
    night.click("Server", "link")
    night.click("Send test")
    night.read(re.compile("took the test"))


def write_up(night: OnCall) -> None:
    """The driver of an application dies with its queries, which is one incident."""
    program = "demo/programs/orders.py"
    drivers = [pid for pid in Path("/proc").glob("[0-9]*") if _runs(pid, program, str(night.demo.data))]
    assert drivers
    for pid in drivers:
        os.kill(int(pid.name), signal.SIGKILL)
    until(lambda: bool(night.demo.call("incidents")["incidents"]), 180)
    night.open("/")
    night.click("Incidents", "link")
    night.click_at(night.page.locator("tbody tr td.title a"))
    with night.page.expect_download() as kept:
        night.click("Download bundle")
    assert b"<html" in kept.value.path().read_bytes()[:2000].lower()


def _runs(pid: Path, program: str, folder: str) -> bool:
    """Whether this process is the Python driver of the program in the demonstration."""
    try:
        arguments = (pid / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return any(item.endswith(program) for item in arguments) and any(
        item.startswith(folder) for item in arguments
    )


TASKS = (
    Task("worst query and why", worst_query, 0),
    Task("what changed", what_changed, FROM_FLEET),
    Task("acknowledge", acknowledge, FROM_ALERT),
    Task("silence 2 h", silence, FROM_ALERT),
    Task("who was notified", who_was_notified, FROM_ALERT),
    Task("restart with reason and see it verified", restart, FROM_FLEET),
    Task("find the slow batch and why", slow_batch, FROM_FLEET),
    Task("when does state hit its limit", state_limit, FROM_FLEET),
    Task("compare two queries", compare, FROM_FLEET),
    Task("all of one team", one_team, FROM_FLEET),
    Task("runbook and back", runbook, FROM_ALERT),
    Task("share what I see", share, FROM_FLEET),
    Task("yesterday", yesterday, FROM_FLEET),
    Task("export", export, FROM_FLEET),
    Task("will the checkpoint restart", will_it_restart, FROM_FLEET),
    Task("restart all of an application", restart_application, FROM_FLEET),
    Task("what does a restart cost", cost_of_restart, FROM_FLEET),
    Task("which drivers are unwell", unwell_drivers, FROM_FLEET),
    Task("is the server itself well", server, FROM_FLEET),
    Task("test a receiver", test_receiver, FROM_FLEET),
    Task("write an incident up", write_up, FROM_FLEET),
)

#: The alerts that the tasks start from.
ALERTS = frozenset({"StateGrowthWithoutEviction", "WatermarkStuck", "QueryFailed"})


def ready(demo: Demo) -> bool:
    """Whether the alerts that the tasks need are there."""
    return {alert["name"] for alert in demo.call("alerts?state=firing")["alerts"]} >= ALERTS
