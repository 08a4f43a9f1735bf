"""Tests of draining an application's queries before a stop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.actions.transitions import NewAction
from controlplane.apps.drain import QueryDrain
from controlplane.errors import Conflict
from controlplane.model import QueryView, Run


@dataclass
class Fleet:
    """Two running queries; a requested stop ends its query unless it is named `deaf`."""

    views: dict[str, QueryView] = field(default_factory=dict)
    requests: list[NewAction] = field(default_factory=list)

    def add(self, name: str, app: str = "billing") -> None:
        run = Run(1, f"run-{name}", name, "agent", 1.0)
        self.views[name] = QueryView(name, app, name, {}, 1.0, None, run)

    def fleet(self) -> list[QueryView]:
        return list(self.views.values())

    def request(self, view: QueryView, wanted: NewAction) -> Any:
        self.requests.append(wanted)
        if view.name == "deaf":
            raise Conflict("its driver allows no commands")
        assert view.run is not None
        self.views[view.query_id] = replace(view, run=replace(view.run, ended_at=2.0))


def test_the_running_queries_of_the_app_are_stopped_and_the_others_named() -> None:
    fleet = Fleet()
    for name, app in (("orders", "billing"), ("deaf", "billing"), ("clicks", "web")):
        fleet.add(name, app)
    left = QueryDrain(fleet, fleet).drain("billing", "ada", "t", 1.0)  # type: ignore[arg-type]
    assert left == ["deaf"]
    assert [(wanted.action, wanted.drain, wanted.actor) for wanted in fleet.requests] == [
        ("stop", True, "ada")
    ] * 2
