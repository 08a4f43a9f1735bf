"""The server's JSON as tables: numbers stay numbers, unknown values stay missing, text is escaped."""

import pandas as pd
import pytest

from tests.ui import factories
from tests.ui.factories import NOW
from ui.kit import frames


@pytest.mark.parametrize(
    ("search", "apps", "statuses", "found"),
    [
        ("", [], [], {"a", "b", "c"}),
        ("LAG behind", [], [], {"b"}),
        ("team=payments", [], [], {"a", "b", "c"}),
        ("", ["clicks"], [], {"c"}),
        ("", [], ["lagging", "failed"], {"b", "c"}),
        ("", ["orders"], ["failed"], set()),
        (factories.query_id(3)[:8], [], [], {"c"}),
    ],
)
def test_filters_narrow_the_fleet(search: str, apps: list[str], statuses: list[str], found: set[str]) -> None:
    queries = [
        factories.fleet_query(1, name="a"),
        factories.fleet_query(2, name="b", status="lagging", reason="lag: 84k rows far behind"),
        factories.fleet_query(3, name="c", app="clicks", status="failed", reason="ended"),
    ]
    assert {query["name"] for query in frames.matching(queries, search, app=apps, status=statuses)} == found


def test_the_series_is_in_order_and_its_phases_add_up_to_the_duration() -> None:
    points = factories.series(count=5)["progress"]
    frame = frames.progress(list(reversed(points)))
    assert frame["time"].is_monotonic_increasing
    assert str(frame["time"].dt.tz) == "UTC"
    whole = frame[[*frames.PHASES, "other"]].sum(axis=1)
    assert whole.to_list() == pytest.approx(frame["duration"].to_list())


def test_a_gap_in_time_breaks_the_line_with_one_empty_row() -> None:
    early = factories.series(NOW - 3600, count=3)["progress"]
    frame = frames.progress([*early, *factories.series(NOW, count=3)["progress"]])
    assert len(frame) == 7
    assert frame["input"].isna().to_list() == [False, False, False, True, False, False, False]


def test_no_points_make_an_empty_series() -> None:
    assert frames.progress([]).empty


def test_runs_show_their_failure_and_whether_they_still_run() -> None:
    frame = frames.runs(factories.detail())
    assert frame["end"].to_list() == ["running", "failed"]
    assert frame["failure"].iloc[1].startswith("FAILED_READ_FILE.FILE_NOT_EXIST: Encountered error")
    assert frames.runs(factories.detail(status="unreachable"))["end"].to_list() == ["unreachable", "failed"]


def test_offsets_of_any_shape_are_one_line() -> None:
    items = [factories.source(), factories.source(end_offset=None, start_offset=7, metrics={})]
    frame = frames.sources(items)
    assert frame["latest"].iloc[0] == "orders/0: 93220, orders/1: 93140"
    assert frame[["start", "end", "metrics"]].iloc[1].to_list() == ["7", "", ""]


def test_state_operators_keep_every_custom_metric() -> None:
    raw = {"operatorName": "dedupe", "numRowsTotal": 7, "customMetrics": {"rocksdbGetCount": 3, "x": 1}}
    row = frames.operators([raw]).iloc[0]
    assert (row["operator"], row["rows"], row["metrics"]) == ("dedupe", 7, "rocksdbGetCount: 3, x: 1")
    assert pd.isna(row["memory"])


def test_actions_have_a_duration_once_they_are_final() -> None:
    done = factories.action(1, state="succeeded", finished_at=NOW - 7180, drain=True)
    frame = frames.actions([factories.action(2), done])
    assert pd.isna(frame["took"].iloc[0])
    assert frame["took"].iloc[1] == 80.0
    assert frame["action"].iloc[1] == "restart with drain"


def test_actions_name_a_broken_checkpoint_and_a_forced_start() -> None:
    evidence = {"code": "checkpoint_broken"}
    named = factories.action(1, state="refused", reason="the checkpoint is broken: x", evidence=evidence)
    short = factories.action(2, state="refused", reason="metadata is torn", evidence=evidence)
    forced = factories.action(3, drain=True, evidence={"forced_by": "ada"})
    frame = frames.actions([named, short, forced])
    assert frame["outcome"].to_list()[:2] == [
        "the checkpoint is broken: x",
        "The checkpoint is broken: metadata is torn",
    ]
    assert frame["action"].to_list() == ["restart", "restart", "forced restart with drain"]


def test_actions_are_found_by_person_reason_and_state() -> None:
    items = [factories.action(1), factories.action(2, actor="grace", state="failed")]
    assert frames.matching(items, "GRACE", state=[]) == [items[1]]
    assert frames.matching(items, "memory", state=["requested"]) == [items[0]]


def test_tables_without_rows_keep_their_columns() -> None:
    assert frames.runs({}).empty and len(frames.runs({}).columns) > 2
    for make in (frames.sources, frames.operators, frames.actions, frames.changes):
        assert make([]).empty
        assert len(make([]).columns) > 2
    assert frames.facts({"a": None, "b": ""}).empty
