"""What is written of a row that has changed."""

from __future__ import annotations

from dataclasses import replace

from controlplane.model import Agent, Run, StatusSample
from controlplane.records import AgentRow, Gap, QueryNaming, QueryRow, ReportedBatches, RunRow
from controlplane.store.rows import agent_values, query_values, run_values

RUN = RunRow(
    Run(3, "r", "q", "a", 1.0), 2.0, naming=QueryNaming(1.0, "a", "shop", "orders", {"team": "data"})
)


def test_only_columns_that_differ_are_written() -> None:
    status = StatusSample(9.0, "r", "Waiting for next trigger", True, False)
    later = replace(RUN, run=replace(RUN.run, batches=1), last_event_at=9.0, status=status)
    assert run_values(later, RUN) == {"batches": 1, "last_event_at": 9.0, "status": vars(status)}
    assert run_values(replace(RUN), RUN) == {}


def test_values_of_columns_with_json_are_those_of_a_new_row() -> None:
    agent = AgentRow(Agent(1, "a", "shop"), polls=(1.0,))
    seen = replace(agent, polls=(1.0, 2.0), info={"heartbeat": {"at": 2.0}})
    labelled = replace(seen, agent=replace(agent.agent, labels={"team": "data"}))
    query = QueryRow(2, "q", "shop", "orders", {}, 1.0)
    missed = replace(query, reported=ReportedBatches(9, (Gap("r", 3, 4, 5.0),)))
    for found, whole in (
        (agent_values(labelled, agent), agent_values(labelled)),
        (query_values(missed, query), query_values(missed)),
        (run_values(RUN, replace(RUN, naming=None)), run_values(RUN)),
    ):
        assert found and found.items() <= whole.items()
    assert agent_values(labelled, agent).keys() == {"polls", "info"}
    assert query_values(missed, query)["reported"]["gaps"][0]["first"] == 3
