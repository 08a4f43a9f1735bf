"""Back-off, budgets, retry classes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controlplane.health.failures import explain
from controlplane.supervision import retries
from controlplane.supervision.policies import RestartBudget, RetryClass, RetryDelay
from controlplane.supervision_model import DecisionOutcome
from tests.unit.controlplane.actions.views import NOW
from tests.unit.controlplane.supervision.troubles import FLAKY, POISON, STRANGE, entry

BUDGET = RestartBudget(restarts=3, seconds=3600.0, reset_seconds=600.0)


def test_the_delay_grows_up_to_its_limit() -> None:
    rule = RetryDelay(5.0, 2.0, 60.0, jitter=0.0)
    assert [retries.delay(rule, n, "q", RetryClass.NOW) for n in (0, 1, 2, 3, 4, 5000)] == [
        5,
        10,
        20,
        40,
        60,
        60,
    ]
    assert retries.delay(rule, 0, "q", RetryClass.LATER) == retries.LATER_SECONDS


@given(st.text(max_size=20), st.integers(0, 2000), st.floats(0.0, 1.0))
def test_the_jitter_stays_within_its_ratio(seed: str, attempts: int, jitter: float) -> None:
    rule = RetryDelay(5.0, 2.0, 600.0, jitter)
    steady = min(5.0 * 2.0 ** min(attempts, 60), 600.0)
    delay = retries.delay(rule, attempts, seed, RetryClass.NOW)
    assert steady * (1 - jitter) * 0.999 <= delay <= steady * (1 + jitter) * 1.001
    assert delay == retries.delay(rule, attempts, seed, RetryClass.NOW)


def test_queries_that_fail_together_are_not_restarted_together() -> None:
    rule = RetryDelay(jitter=0.2)
    assert len({retries.delay(rule, 0, f"q{n}", RetryClass.NOW) for n in range(100)}) > 90


def test_the_class_is_that_of_the_catalogue_unless_the_file_overrides_it() -> None:
    assert retries.retry_class(explain(FLAKY), {}) is RetryClass.NOW
    assert retries.retry_class(explain(POISON), {}) is RetryClass.NEVER
    assert retries.retry_class(explain(STRANGE), {}) is RetryClass.UNKNOWN
    assert retries.retry_class(explain(POISON), {"CAST_INVALID_INPUT": RetryClass.ONCE}) is RetryClass.ONCE
    sub = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT] x"
    assert retries.retry_class(explain(sub), {"CANNOT_LOAD_STATE_STORE": RetryClass.NOW}) is RetryClass.NOW


def test_a_change_that_the_checkpoint_does_not_allow_is_never_retried() -> None:
    changed = replace(explain(FLAKY), change="the schema of the state")
    overrides = {changed.kind: RetryClass.NOW}
    assert retries.retry_class(changed, overrides) is RetryClass.NEVER


def test_restarts_before_a_healthy_time_do_not_count() -> None:
    early = entry(5000.0, outcome=DecisionOutcome.RECOVERED, outcome_at=NOW - 4990.0)
    late = entry(1000.0, trouble_since=NOW - 1010.0)
    assert retries.counted([early, late], BUDGET, NOW, 0.0) == [late]
    again = replace(late, trouble_since=NOW - 4500.0)  # healthy for less than ten minutes
    assert retries.counted([early, again], BUDGET, NOW, 0.0) == [early, again]
    recovered = replace(late, outcome=DecisionOutcome.RECOVERED, outcome_at=NOW - 900.0)
    assert retries.counted([early, recovered], BUDGET, NOW, 0.0) == []


def test_restarts_before_a_persons_start_do_not_count() -> None:
    old, new = entry(300.0), entry(100.0)
    assert retries.counted([old, new], BUDGET, NOW, NOW - 200.0) == [new]
    assert retries.counted([old, new], BUDGET, NOW, NOW) == []


def test_the_budget_counts_its_window() -> None:
    assert retries.spent([entry(4000.0), entry(3000.0), entry(10.0)], BUDGET, NOW) == 2


def test_only_restarts_that_were_carried_out_count_for_a_policy_that_acts() -> None:
    done, considered, refused = entry(), entry(mode="observe", acted=False), entry(acted=False)
    assert retries.restarts_of([done, considered, refused], "act") == [done]
    assert retries.restarts_of([done, considered, refused], "observe") == [considered]
