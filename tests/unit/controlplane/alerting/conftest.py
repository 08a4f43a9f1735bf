"""A whole alerting service on an embedded store, its clock and its series moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from alerts.notify.receivers.recorder import Recorder
from controlplane.alerting.alert_queries import AlertQueries
from controlplane.alerting.service import AlertingService
from controlplane.settings import Settings
from tests.stores import StoreHarness, sqlite_harness
from tests.unit.controlplane.alerting.parts import Clock, Scrapes, rule

#: The first silence_state the second, where they agree in `app`.
ROUTES = """
route: {receiver: team, group_by: [app], group_wait: 10s, group_interval: 5m, repeat_interval: 1h}
receivers: [{name: team}, {name: other}]
inhibit_rules:
- {source_matchers: ['alertname="Down"'], target_matchers: ['alertname="Slow"'], equal: [app]}
"""
RULES = "groups:\n- name: one\n  rules:\n" + rule("Down", "up == 0") + rule("Slow", "slow > 0")


class AlertingServices:
    """One store and the services that follow each other in it; `hook` is what the route leads to."""

    def __init__(self, harness: StoreHarness, folder: Path):
        self.harness, self.folder = harness, folder
        self.clock, self.series, self.hook = Clock(), Scrapes(), Recorder("hook")
        self.write(RULES, ROUTES)
        self.service = self.opened()

    @property
    def queries(self) -> AlertQueries:
        return self.service.queries

    def write(self, rules: str, routes: str) -> None:
        (self.folder / "rules.yaml").write_text(rules)
        (self.folder / "notify.yaml").write_text(routes)

    def opened(self) -> AlertingService:
        """A service as after a (re)start."""
        files = Settings(rules=(str(self.folder / "rules.yaml"),), notify=self.folder / "notify.yaml")
        service = AlertingService(files, self.series, self.harness.writer, self._reading, self.clock)
        with self._reading() as conn:
            service.load(conn)
        return service

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self.harness.engine.connect() as connection:
            yield connection

    def tick(self, later: float = 15.0) -> None:
        self.clock.now += later
        self.service.tick(self.clock.now)

    def look(self, later: float = 10.0) -> None:
        """What is due is reported to the hook, as the workers would."""
        self.clock.now += later
        notifier = self.service.notifier
        notifier._book = replace(notifier._book, receivers={"team": (self.hook,)})
        for group in notifier.groups():
            if group.due_at() <= self.clock.now:
                notifier.look(group.name)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[AlertingServices]:
    with sqlite_harness(tmp_path) as harness:
        yield AlertingServices(harness, tmp_path)
