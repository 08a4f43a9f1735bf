"""A fleet that fails at random, on a fast clock: the world around a real supervisor.

The supervisor, its decisions, the policies and the verdicts are the product's; store, window and drivers are simulated.
Time jumps from one event to the next, so a query-year takes milliseconds.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.actions import guards
from controlplane.actions.transitions import NewAction, request
from controlplane.health.verdicts import VerdictLog
from controlplane.incident_model import Incident, TrialState
from controlplane.incidents.log import IncidentLog
from controlplane.model import Action, ActionState, Agent, ProgressSample, QueryView, Run, RunEnd, RunFacts
from controlplane.store.supervision.policies import PolicyDocument
from controlplane.supervision import policy_file
from controlplane.supervision.driver_leases import DriverLeases
from controlplane.supervision.policies import Policy, PolicySet
from controlplane.supervision.supervisor import Supervisor
from controlplane.supervision_model import Desired, DesiredState, LedgerEntry, RestartHold

BEGIN = 1_700_000_000.0
HOUR, DAY, YEAR = 3600.0, 86400.0, 365 * 86400.0
#: Text of the exception -> how likely a restart after it works.
FAILURES = {
    "[STREAM_FAILED] x\nCaused by: java.net.ConnectException: Connection refused": 0.7,
    "java.lang.IllegalStateException: the frobnicator is out of cheese": 0.5,
    "[STREAM_FAILED] x\nCaused by: java.lang.OutOfMemoryError: Java heap space": 0.5,
    "[CAST_INVALID_INPUT] The value 'x' of the type STRING cannot be cast to INT.": 0.0,
    "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] gone": 0.0,
}
MEAN_HEALTHY, MEAN_PERSON, MEAN_OUTAGE = 12 * HOUR, 20 * DAY, 20 * DAY
#: Of a service that all queries use.
OUTAGE = next(iter(FAILURES))


@dataclass
class SimulatedStream:
    """One query of the fleet. `text`: the exception of its last failure; `runs`: how many runs it has had."""

    query_id: str
    app: str
    agent: Agent
    runs: int = 0
    text: str = ""
    fails: int = 0  # until then, each start fails again


@dataclass
class SimulatedFleet:
    """The world: `book`, `window` and `actions` of a `Supervisor`. `requests`: what it asked for, with the time."""

    seed: int
    policies: PolicySet
    queries: int = 4
    now: float = BEGIN
    ledger: dict[str, LedgerEntry] = field(default_factory=dict)
    requests: list[tuple[float, QueryView, NewAction]] = field(default_factory=list)
    resets: list[tuple[float, str]] = field(default_factory=list)
    holds: int = 0
    unwanted: int = 0
    outage_until: float = 0.0
    incidents_seen: dict[str, Incident] = field(default_factory=dict)
    trials: set[TrialState] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.document = PolicyDocument(1, "")
        self._views: dict[str, QueryView] = {}
        self._actions: dict[str, Action] = {}
        self._by_query: dict[str, list[LedgerEntry]] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self.verdicts = VerdictLog(views=self.view)
        self._begin_incidents()
        self.supervisor = self._supervisor()
        self._later(self.random.expovariate(1 / MEAN_OUTAGE), self._deploy)
        for number in range(self.queries):
            app = f"app-{number % 2}"
            agent = Agent(number, f"agent-{app}", app, first_seen_at=BEGIN, last_seen_at=BEGIN + 1000 * YEAR)
            stream = SimulatedStream(f"query-{number}", app, agent)
            self._begin(stream)
            self._later(self.random.expovariate(1 / MEAN_PERSON), lambda s=stream: self._person(s))

    def _begin_incidents(self) -> None:
        self.incidents = IncidentLog(self, self.verdicts, self.put_incidents, lambda: self.now)
        self.incidents.on_change = lambda query_ids: self.supervisor.note(query_ids)  # noqa: PLW0108 - it comes later

    def _supervisor(self, leases: DriverLeases | None = None) -> Supervisor:
        clock = lambda: self.now  # noqa: E731
        return Supervisor(self, self, self.verdicts, self, self, clock, leases, self.incidents)  # type: ignore[arg-type]

    # -- the supervisor's collaborators ---------------------------------------------------------------

    def put_incidents(self, changed: Sequence[Incident]) -> None:
        self.incidents_seen |= {incident.id: incident for incident in changed}
        self.trials |= {incident.trial.state for incident in changed if incident.trial}

    def agent_info(self, agent: str) -> Mapping[str, Any]:
        return {}

    def set_supervised(self, query_id: str, **changes: Any) -> None:
        view = self._views[query_id]
        self._change(query_id, supervised=replace(view.supervised, **changes))

    def of(self, view: QueryView) -> Policy | None:
        return self.policies.of({"app": view.app})

    def history_of(self, query_id: str, since: float) -> list[LedgerEntry]:
        found = self._by_query.get(query_id, [])[-60:]
        return [entry for entry in found if entry.at >= since]

    def open_entries(self) -> list[LedgerEntry]:
        return [entry for entry in self.ledger.values() if entry.is_open]

    def add(self, entry: LedgerEntry) -> None:
        assert entry.id not in self.ledger
        self.ledger[entry.id] = entry
        self._by_query.setdefault(entry.query_id, []).append(entry)

    def change(self, entry: LedgerEntry) -> None:
        self.ledger[entry.id] = entry
        entries = self._by_query[entry.query_id]
        entries[next(i for i, known in enumerate(entries) if known.id == entry.id)] = entry

    def action_of(self, entry: LedgerEntry) -> Action | None:
        return self._actions.get(entry.action_id or "")

    def view(self, query_id: str) -> QueryView | None:
        return self._views.get(query_id)

    def views(self) -> list[QueryView]:
        return list(self._views.values())

    def hold(self, view: QueryView, hold: RestartHold | None) -> None:
        if hold != view.supervised.hold:
            self.holds += hold is not None
            self._change(view.query_id, supervised=replace(view.supervised, hold=hold))

    def request(self, view: QueryView, wanted: NewAction) -> tuple[Action, bool]:
        self._number += 1
        view = self._views[view.query_id]
        action = request(view, wanted, f"action-{self._number}", self.now)
        refusal = guards.check(view, wanted.action, view.action)
        if (
            refusal is None
            and wanted.actor.startswith("policy:")
            and view.supervised.state is not DesiredState.RUNNING
        ):
            refusal = guards.ActionRefusal("desired_state", "a person does not want it")
        self.requests.append((self.now, view, wanted))
        if refusal is not None:
            evidence = {"code": refusal.code}
            action = replace(action, state=ActionState.REFUSED, reason=refusal.reason, evidence=evidence)
            self._actions[action.id] = action
            return action, True
        self._actions[action.id] = action
        self._change(view.query_id, action=action)
        stream = self._stream_of(view)
        seconds = self.random.choice((1.0, 5.0, 60.0))
        self._later(seconds, lambda: self._obey(stream, action))
        return action, True

    # -- what happens ---------------------------------------------------------------------------------

    def run(self, years: float) -> None:
        """Let `years` pass."""
        until = BEGIN + years * YEAR
        self.supervisor.load()
        while self.now < until:
            self.now = max(self.now, min(self._due(), until))
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            self._tick()
            self._look_for_unwanted_runs()

    def _due(self) -> float:
        due = min([*self.supervisor._due.values(), self._events[0][0]])
        return self.now if self.supervisor._changed else due

    def _tick(self) -> None:
        self._note()
        self.incidents.tick()
        self.supervisor.tick()

    def _look_for_unwanted_runs(self) -> None:
        """Count the queries that run for a minute although a person wants them stopped."""
        for view in self.views():
            run, desired = view.run, view.supervised.desired
            wanted = desired is None or desired.state is DesiredState.RUNNING
            if wanted or run is None or run.ended_at is not None or view.action is not None:
                continue
            assert desired is not None
            self.unwanted += self.now - max(run.started_at, desired.at) > 60.0

    def _note(self) -> None:
        changes = self.verdicts.claim(self.verdicts.changes_of(self.views(), self.now))
        self.supervisor.note(change.query_id for change in changes)
        self._note_incidents(change.query_id for change in changes)

    def _note_incidents(self, query_ids: Iterable[str]) -> None:
        """Drivers send no heartbeats here, so a query that runs soon reads lost: that is no incident."""
        found = [
            q
            for q in query_ids
            if self.verdicts.verdict_of(self._views[q], self.now).verdict.status != "lost"
        ]
        self.incidents.note(found)

    def _later(self, seconds: float, event: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, event))

    def _change(self, query_id: str, **changes: Any) -> None:
        self._views[query_id] = replace(self._views[query_id], **changes)
        self.supervisor.note((query_id,))

    def _stream_of(self, view: QueryView) -> SimulatedStream:
        return self._streams[view.query_id]

    @property
    def _streams(self) -> dict[str, SimulatedStream]:
        return self.__dict__.setdefault("_known", {})

    def _begin(self, stream: SimulatedStream) -> Run:
        """A new run that commits a batch and fails some time later."""
        self._streams[stream.query_id] = stream
        stream.runs += 1
        run_id = f"{stream.query_id}-{stream.runs}"
        run = Run(
            stream.runs,
            run_id,
            stream.query_id,
            stream.agent.agent,
            self.now,
            batches=1,
            last_batch_id=stream.runs,
        )
        sample = ProgressSample(self.now, self.now, run_id, stream.runs, 1.0, {"addBatch": 1}, 10, 10.0, 10.0)
        known = self._views.get(stream.query_id)
        view = known or QueryView(stream.query_id, stream.app, stream.query_id, {}, BEGIN, stream.agent, None)
        self._views[stream.query_id] = replace(
            view,
            run=run,
            progress=(sample,),
            idle_at=BEGIN + 1000 * YEAR,  # it is healthy until it fails
            facts=RunFacts(trigger="processing_time", trigger_interval=10.0),
            last_event_at=self.now,
        )
        self.supervisor.note((stream.query_id,))
        self._later(self.random.expovariate(1 / MEAN_HEALTHY), lambda: self._fail(stream, run_id))
        return run

    def _fail(self, stream: SimulatedStream, run_id: str) -> None:
        """The run fails, and the next starts may fail the same way."""
        run = self._views[stream.query_id].run
        if run is None or run.run_id != run_id or run.ended_at is not None:
            return
        stream.text = self.random.choice(list(FAILURES))
        stream.fails = self.random.choice((0, 0, 0, 1, 2, 8)) if FAILURES[stream.text] else 100
        self._end(stream, run, RunEnd.FAILED)
        if self.random.random() < 0.15:
            self._later(self.random.uniform(0.0, 90.0), lambda: self._intervene(stream))

    def _deploy(self) -> None:
        """A person repairs and starts every query; minutes later a service fails that all of them use."""
        for stream in list(self._streams.values()):
            stream.fails = 0
            self.want(stream.query_id, DesiredState.RUNNING)
            self.request(self._views[stream.query_id], NewAction("start", "ada", "ui"))
        self._later(300.0, self._fail_together)

    def _fail_together(self) -> None:
        """A service fails for a while: each query fails within a minute, and each start fails."""
        self.outage_until = self.now + self.random.choice((90.0, 600.0, 2 * HOUR))
        for view in self.views():
            if view.run is not None and view.run.ended_at is None:
                stream, run_id = self._stream_of(view), view.run.run_id
                self._later(self.random.uniform(0.0, 60.0), lambda s=stream, r=run_id: self._break(s, r))
        self._later(self.random.expovariate(1 / MEAN_OUTAGE), self._deploy)

    def _break(self, stream: SimulatedStream, run_id: str) -> None:
        run = self._views[stream.query_id].run
        if run is not None and run.run_id == run_id and run.ended_at is None:
            stream.text, stream.fails = OUTAGE, 0
            self._end(stream, run, RunEnd.FAILED)

    def _intervene(self, stream: SimulatedStream) -> None:
        """A person stops the query in the middle of its trouble, and starts it a day later."""
        self.want(stream.query_id, DesiredState.STOPPED)
        self.request(self._views[stream.query_id], NewAction("stop", "ada", "ui"))
        self._later(DAY, lambda: self.want(stream.query_id, DesiredState.RUNNING))

    def _end(self, stream: SimulatedStream, run: Run, how: RunEnd) -> None:
        text = stream.text if how is RunEnd.FAILED else None
        ended = replace(run, ended_at=self.now, end=how, failure_text=text)
        self._change(stream.query_id, run=ended, idle_at=None, last_event_at=self.now)

    def _obey(self, stream: SimulatedStream, action: Action) -> None:
        """The driver carries an action out."""
        run = self._views[stream.query_id].run
        evidence: dict[str, Any] = {}
        state = ActionState.SUCCEEDED
        if action.action in ("stop", "restart") and run is not None and run.ended_at is None:
            self._end(stream, run, RunEnd.STOPPED)
        if action.action != "stop":
            state, evidence = self._started(stream)
        ended = replace(action, state=state, evidence=evidence, finished_at=self.now, reason=state.value)
        self._actions[action.id] = ended
        self._change(stream.query_id, action=None)

    def _started(self, stream: SimulatedStream) -> tuple[ActionState, dict[str, Any]]:
        luck = self.random.random()
        if luck < 0.02:
            return ActionState.REFUSED, {"code": self.random.choice(("checkpoint_broken", "needs_factory"))}
        if luck < 0.04:
            return ActionState.EXPIRED, {}
        run = self._begin(stream)
        if stream.fails > 0 or self.now < self.outage_until:
            stream.fails = max(0, stream.fails - 1)
            failed = replace(run, batches=0, last_batch_id=None)
            self._change(stream.query_id, run=failed)
            self._end(stream, failed, RunEnd.FAILED)
            return ActionState.FAILED, {"run_id": run.run_id}
        return ActionState.SUCCEEDED, {"run_id": run.run_id}

    def _person(self, stream: SimulatedStream) -> None:
        """A person stops, suspends or starts the query, or repairs it and starts it."""
        state = self.random.choice(list(DesiredState))
        self.want(stream.query_id, state)
        if state is DesiredState.RUNNING:
            stream.fails = 0
        view = self._views[stream.query_id]
        verb = "start" if state is DesiredState.RUNNING else "stop"
        self.request(view, NewAction(verb, "ada", "ui"))
        wait = self.random.expovariate(1 / (MEAN_PERSON if state is DesiredState.RUNNING else HOUR))
        self._later(wait, lambda: self._person(stream))

    def want(self, query_id: str, state: DesiredState) -> None:
        """A person sets the desired state; a policy's action that is still open is withdrawn half of the time."""
        view = self._views[query_id]
        desired = Desired(query_id, state, "ada", self.now)
        self._change(query_id, supervised=replace(view.supervised, desired=desired))
        self._note_incidents((query_id,))
        if state is DesiredState.RUNNING:
            self.resets.append((self.now, query_id))


def fleet(text: str, seed: int, queries: int = 4) -> SimulatedFleet:
    """A fleet under the policies of a file."""
    policies, mistakes = policy_file.load(text)
    assert policies is not None, mistakes
    return SimulatedFleet(seed, policies, queries)
