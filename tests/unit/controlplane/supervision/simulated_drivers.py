"""A simulated fleet whose drivers restart queries under leases, over a network and a server that are away at times.

Leases, their acknowledgements and the drivers' decisions are the product's, on the server and in the driver; messages
take seconds, wait while the server is away, and a server may come back without its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controlplane.model import Action, ActionState, Agent, QueryView, RunEnd
from controlplane.supervision.driver_leases import DriverLeases
from listeners.commands.restart_leases import DriverDecision, FailedRun, RestartLeases
from listeners.protocol import wire
from listeners.protocol.wire import CommandResult, Event
from tests.unit.controlplane.supervision.simulated_fleet import DAY, SimulatedFleet, SimulatedStream

MEAN_AWAY, MEAN_BETWEEN = 1200.0, 2 * DAY


class DrivenFleet(SimulatedFleet):
    """`driven`: (time, query, run, acted) of each restart that a driver decided."""

    def __post_init__(self) -> None:
        self.away_until = 0.0
        self.driven: list[tuple[float, str, str, bool]] = []
        self.deciders: dict[str, list[str]] = {}
        self.texts: dict[str, str] = {}  # failed run -> its exception
        self._held: list[Callable[[], None]] = []
        self._drivers: dict[str, RestartLeases] = {}
        self._sent: dict[str, str] = {}
        super().__post_init__()
        self._begin_server()
        self._later(self.random.expovariate(1 / MEAN_BETWEEN), self._go_away)

    def _begin_server(self) -> None:
        self.leases = DriverLeases(self, self, self, lambda: self.now)  # type: ignore[arg-type]
        self._begin_incidents()
        self.incidents.load(i for i in self.incidents_seen.values() if i.ended_at is None)
        self._note_incidents(self._views)
        self.supervisor = self._supervisor(self.leases)
        self.leases.on_release = self.supervisor.note
        self.supervisor.load()

    @property
    def is_away(self) -> bool:
        return self.now < self.away_until

    # -- the collaborators of the leases --------------------------------------------------------------

    def agent(self, agent: str) -> Agent | None:
        return next((v.agent for v in self._views.values() if v.agent and v.agent.agent == agent), None)

    def agent_info(self, agent: str) -> Mapping[str, Any]:
        return {"app_started": {"leases": 1}}

    def put(self, action: Action) -> None:
        """The outbox: only the newest document of an agent is delivered."""
        if action.state is ActionState.REQUESTED and action.agent is not None:
            self._sent[action.agent] = action.id
            self._message(lambda: self._deliver(action))

    def _deliver(self, action: Action) -> None:
        if self._sent.get(action.agent or "") != action.id:
            return
        driver = self._driver(action.agent or "")
        for decision in driver.take(action.overrides, self.now):
            self._report(action.agent or "", "restart_decision", driver.declined(decision, self.now))
        leases = self.leases
        self._message(
            lambda: leases is self.leases and leases.answer(action.id, CommandResult("succeeded"), None)
        )
        self._drive(action.agent or "")

    def _driver(self, agent: str) -> RestartLeases:
        return self._drivers.setdefault(agent, RestartLeases(monotonic=lambda: self.now))

    # -- the network and the server -------------------------------------------------------------------

    def _message(self, arrive: Callable[[], object], seconds: float | None = None) -> None:
        """A message between server and driver; it waits while the server is away."""
        seconds = self.random.choice((0.1, 1.0, 20.0)) if seconds is None else seconds

        def deliver() -> None:
            if self.is_away:
                self._held.append(deliver)
            else:
                arrive()

        self._later(seconds, deliver)

    def _go_away(self) -> None:
        self.away_until = self.now + self.random.expovariate(1 / MEAN_AWAY)
        self._later(self.away_until - self.now + 0.001, self._come_back)

    def _come_back(self) -> None:
        if self.random.random() < 0.5:
            self._sent.clear()
            self._begin_server()
            self.supervisor.note(self._views)
        held, self._held = self._held, []
        for message in held:
            message()
        self._later(self.random.expovariate(1 / MEAN_BETWEEN), self._go_away)

    def _due(self) -> float:
        return self._events[0][0] if self.is_away else super()._due()

    def _tick(self) -> None:
        if not self.is_away:
            super()._tick()

    def _look_for_unwanted_runs(self) -> None:
        if self.now > self.away_until + 120.0:
            super()._look_for_unwanted_runs()

    def _person(self, stream: SimulatedStream) -> None:
        if self.is_away:
            self._later(3600.0, lambda: self._person(stream))
        else:
            super()._person(stream)

    def _intervene(self, stream: SimulatedStream) -> None:
        if not self.is_away:
            super()._intervene(stream)

    def _obey(self, stream: SimulatedStream, action: Action) -> None:
        if action.actor.startswith("policy:") and action.previous_run_id is not None:
            self.deciders.setdefault(action.previous_run_id, []).append("server")
        super()._obey(stream, action)

    # -- the drivers ----------------------------------------------------------------------------------

    def _end(self, stream: SimulatedStream, run: Any, how: RunEnd) -> None:
        super()._end(stream, run, how)
        if how is RunEnd.FAILED:
            agent = stream.agent.agent
            self.texts[run.run_id] = stream.text
            self._driver(agent).failed(FailedRun(stream.query_id, run.run_id, self.now, stream.text))
            self._later(0.05, lambda: self._drive(agent))

    def _drive(self, agent: str) -> None:
        """What the driver's thread does when something changed or is due."""
        driver = self._driver(agent)
        for failed in driver.failures:
            view = self._views[failed.query_id]
            if view.run is None or view.run.run_id != failed.run_id:
                driver.forget(failed.query_id)
                continue
            decision = driver.decide(failed.query_id, self.now)
            if decision is None:
                continue
            if decision.kind == "wait":
                self._later(max(0.01, decision.due_at - self.now), lambda: self._drive(agent))
            elif decision.kind == "decline":
                self._report(agent, "restart_decision", driver.declined(decision, self.now))
            else:
                self._restart(agent, driver, decision, view)

    def _restart(self, agent: str, driver: RestartLeases, decision: DriverDecision, view: QueryView) -> None:
        report = driver.begin(decision, self.now)
        assert report is not None
        run_id = decision.run.run_id
        self.driven.append((self.now, view.query_id, run_id, report["acted"]))
        self._report(agent, "restart_decision", report)
        if not report["acted"]:
            return
        self.deciders.setdefault(run_id, []).append("driver")
        _, evidence = self._started(self._stream_of(view))
        result = {
            "id": view.query_id,
            "decisionId": report["decisionId"],
            "state": "succeeded" if "run_id" in evidence else "refused",
            "code": evidence.get("code", ""),
            "startedRun": evidence.get("run_id"),
        }
        if "run_id" not in evidence:
            self.deciders[run_id] = []  # the driver has left the run to the server
        self._report(agent, "restart_result", result)

    def _report(self, agent: str, type: str, data: Mapping[str, Any]) -> None:
        event = Event(agent, 1, self.now, wire.App("app"), type, dict(data))
        self._message(lambda: self._arrive([event]), 1.0)  # the spool keeps the order

    def _arrive(self, events: Iterable[Event]) -> None:
        events = list(events)
        self.leases.on_events(events)
        self.supervisor.note([str(event.data["id"]) for event in events])
