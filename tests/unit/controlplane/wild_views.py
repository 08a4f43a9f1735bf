"""Views with every field as odd as its type allows, for properties that must hold of any view."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from controlplane.driver_model import HostLoad
from controlplane.model import (
    Action,
    ActionState,
    Agent,
    ProgressSample,
    QueryView,
    Run,
    RunEnd,
    RunFacts,
    SourceSample,
    StatusSample,
)
from tests.unit.controlplane.situations import NOW

moments = (
    st.floats(NOW - 1e5, NOW + 1e5)
    | st.just(math.nan)
    | st.just(math.inf)
    | st.just(0.0)
    | st.just(-math.inf)
)
wild = st.floats() | st.integers(-(2**63), 2**63 - 1)
few_text = st.sampled_from(
    ["", "run-1", "run-2", "Waiting for data to arrive", "boom [A_B]", "available_now"]
)
offsets = st.none() | st.dictionaries(st.sampled_from(["t/0", "t/1"]), st.floats(), max_size=2)
sources_ = st.builds(SourceSample, few_text, offsets, offsets, offsets, st.integers(-1, 2**63 - 1))
samples_ = st.builds(
    ProgressSample,
    at=moments,
    trigger_at=moments,
    run_id=few_text,
    batch_id=st.integers(-1, 5),
    duration=st.floats(),
    phases_ms=st.just({}),
    input_rows=st.integers(-1, 2**63 - 1),
    input_rows_per_second=st.none() | st.floats(),
    processed_rows_per_second=st.none() | st.floats(),
    sources=st.lists(sources_, max_size=2).map(tuple),
)
maybe = st.none() | moments
figures_ = st.none() | st.floats()
hosts_ = st.builds(
    HostLoad, moments, st.booleans(), figures_, figures_, figures_, figures_, figures_, figures_, figures_, figures_
)  # fmt: skip
statuses_ = st.builds(
    StatusSample,
    moments,
    few_text,
    few_text,
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    maybe,
)
agents_ = st.builds(
    Agent,
    st.just(1),
    few_text,
    few_text,
    last_seen_at=moments,
    ended_at=maybe,
    end_reason=st.none() | few_text,
)
runs_ = st.builds(
    Run, st.just(1), st.sampled_from(["run-1", "run-2"]), few_text, few_text, moments, maybe,
    st.none() | st.sampled_from(RunEnd), failure_text=st.none() | few_text, error_class=st.none() | few_text,
)  # fmt: skip
actions_ = st.builds(
    Action, few_text, few_text, few_text, few_text, st.sampled_from(["stop", "start", "restart"]), few_text,
    st.sampled_from(ActionState), moments, moments,
)  # fmt: skip
views_ = st.builds(
    QueryView,
    query_id=few_text,
    app=few_text,
    name=st.none() | few_text,
    labels=st.just({}),
    first_seen_at=moments,
    agent=st.none() | agents_,
    run=st.none() | runs_,
    facts=st.builds(RunFacts, st.none() | few_text, st.none() | wild.map(float)),
    progress=st.lists(samples_, max_size=14).map(tuple),
    idle_at=maybe,
    status=st.none() | statuses_,
    polls=st.lists(moments, max_size=4).map(sorted).map(tuple),
    start_failed_at=maybe,
    start_failure=st.none() | few_text,
    action=st.none() | actions_,
    retired_at=maybe,
    host=st.none() | hosts_,
    overload=st.none() | hosts_,
)
