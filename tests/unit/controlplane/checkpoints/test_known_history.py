"""What is remembered of a query: its reports, without those that were undone since."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.checkpoints.known_history import history_from

Reported = list[tuple[float, dict[str, Any]]]


def report(batch: Any, end: Any = 1, **more: Any) -> dict[str, Any]:
    return {"batchId": batch, "sources": [{"endOffset": end}], **more}


def reported(*batches: int) -> Reported:
    return [(float(at), report(batch, at)) for at, batch in enumerate(batches)]


def test_each_batch_is_known_by_its_last_report() -> None:
    known = history_from("q", reported(0, 1, 2), "/c", None, "r").reports
    assert {batch: item.end_offsets for batch, item in known.items()} == {0: (0,), 1: (1,), 2: (2,)}


def test_what_came_after_a_batch_that_runs_again_is_undone() -> None:
    known = history_from("q", reported(0, 1, 2, 3, 1), "/c", None, "r").reports
    assert {batch: item.end_offsets for batch, item in known.items()} == {0: (0,), 1: (4,)}


def test_state_and_watermark_are_read() -> None:
    stateful = report(
        3, stateOperators=[{"operatorName": "dedupe"}], eventTime={"watermark": "2026-01-01T00:00:00Z"}
    )
    known = history_from("q", [(1.0, stateful)], "/c", None, "r")
    assert known.stateful is True
    assert known.reports[3].watermark_ms == 1_767_225_600_000
    assert history_from("q", reported(1), "/c", None, "r").stateful is False
    assert history_from("q", [], "/c", None, "r").empty


def test_the_sources_are_those_of_the_newest_report() -> None:
    reports = [
        (float(at), report(at, sources=[{"description": name}])) for at, name in enumerate(("old", "new"))
    ]
    assert history_from("q", reports, "/c", None, "r").sources == ("new",)
    assert history_from("q", reported(1), "/c", None, "r").sources == ("",)


def test_only_the_comparison_of_this_run_counts() -> None:
    findings = [
        {"severity": "error", "message": "a source was added"},
        {"severity": "info", "message": "a name"},
    ]
    comparison = {"verdict": "not_allowed", "findings": findings}
    shape = {"run_id": "r", "shape": {}, "comparison": comparison}
    assert history_from("q", [], "/c", shape, "r").disallowed_changes == ("a source was added",)
    assert history_from("q", [], "/c", shape, "other").disallowed_changes == ()
    assert history_from("q", [], "/c", {**shape, "comparison": None}, "r").disallowed_changes == ()


def test_asynchronous_progress_is_known_from_the_shape() -> None:
    sink = {"options": {"asyncprogresstrackingenabled": "true"}}
    assert history_from(
        "q", [], "/c", {"run_id": "r", "shape": {"sink": sink}, "comparison": None}, "r"
    ).asynchronous


@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["batchId", "sources", "endOffset", "eventTime", "watermark"]), inner
                )
            ),
            max_leaves=12,
        ).filter(lambda value: isinstance(value, dict)),
        max_size=6,
    )
)
def test_any_report_at_all_is_read(reports: list[dict[str, Any]]) -> None:
    history_from("q", list(enumerate(reports)), "/c", None, None)
