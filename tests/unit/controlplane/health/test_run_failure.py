"""A change of shape beside a failure is its cause; Spark's exception names a symptom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.health.judge import judge
from controlplane.health.run_failure import change_that_failed, failure_of_run
from controlplane.model import QueryStatus, RunEnd
from controlplane.shapes.report import comparison_document, disallowed_change
from tests.unit.controlplane.shapes import shapes
from tests.unit.controlplane.situations import NOW, run, view

TYPE = shapes.reported(sources=[shapes.source(type="RateStreamV2", description="RateStreamV2", options={})])
#: What changed, Spark's exception, and what was advised when only the exception was read.
CASES = {
    "a source of another type": (
        shapes.reported(),
        TYPE,
        'java.lang.NumberFormatException: For input string: "{"logOffset":4}"',
        "source 0 was FileStreamSource and is RateStreamV2",
    ),
    "stateless became an aggregate": (
        shapes.reported(),
        shapes.reported(shapes.aggregate()),
        "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] Cannot restart streaming query",
        "the stateful operators were none and are aggregate",
    ),
    "other keys": (
        shapes.reported(shapes.aggregate()),
        shapes.reported(shapes.aggregate(keys=[shapes.key("n", "long")])),
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema",
        "the keys were (k string) and are (n long)",
    ),
}


def failed(text, **more):
    return run(ended_at=NOW - 10, end=RunEnd.FAILED, failure_text=text, **more)


def change(before, after, run_id="run-1"):
    return disallowed_change(run_id, comparison_document(before, after))


@pytest.mark.parametrize("name", CASES)
def test_change_is_the_cause_of_the_failure_beside_it(name):
    before, after, text, expected = CASES[name]
    found = failure_of_run(failed(text), change(before, after))
    assert expected in found.change and found.retry == "never"
    assert found.advice.startswith("Revert the change") and "new checkpoint" in found.advice
    reason = judge(view(run=failed(text), change=change(before, after)), NOW)
    assert (
        reason.status is QueryStatus.FAILED
        and f"The query was changed: {found.change}. Revert" in reason.reason
    )


def test_other_failures_keep_their_own_cause():
    before, after, text, _ = CASES["other keys"]
    changed = change(before, after)
    committed = failed(text, last_batch_id=7)
    lost = failed("org.apache.spark.SparkException: ExecutorLostFailure (executor 1 exited)")
    assert failure_of_run(failed(text), None).change is None
    assert failure_of_run(failed(text), replace(changed, run_id="another")).change is None
    assert failure_of_run(committed, changed).change is None, "the change ran"
    assert failure_of_run(lost, changed).change is None, "lost executors are not the change"
    assert [change_that_failed(each, changed) for each in (None, run(), committed)] == [None] * 3
    assert change_that_failed(failed(text), changed) is changed


def test_allowed_changes_are_no_cause():
    renamed = shapes.reported(shapes.aggregate(keys=[shapes.key("n", of="k")]))
    assert change(shapes.reported(shapes.aggregate()), renamed) is None
    assert disallowed_change("run-1", None) is None


def test_change_that_spark_runs_is_not_the_cause():
    harmless = replace(change(*CASES["other keys"][:2]), fails=False)
    run = failed("TopicAuthorizationException: Not authorized to access topics: [orders]")
    assert failure_of_run(run, harmless).change is None
    assert change_that_failed(run, harmless) is None
