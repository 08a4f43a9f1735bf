"""The timeline: rows, clipping, concurrent alerts below each other, tooltips."""

import json
from datetime import UTC
from typing import Any

from tests.ui import factories
from tests.ui.alerting_factories import alert
from tests.ui.factories import HOSTILE, NOW, rfc3339
from ui.query import timeline

WINDOW = (NOW - 900, NOW)


def shown(alerts: list[dict[str, Any]] | None = None, **overrides: Any) -> dict[str, Any]:
    query = factories.detail(**overrides)
    return timeline.option(timeline.TimelineData(query, alerts or [], WINDOW, NOW, UTC))


def bars(option: dict[str, Any], row: str) -> list[dict[str, Any]]:
    return [item for item in option["series"][0]["data"] if item["coords"][0][1] == row]


def fired(start: float, end: float | None, **overrides: Any) -> dict[str, Any]:
    resolved = None if end is None else rfc3339(NOW - end)
    return alert(now=NOW, fired_at=rfc3339(NOW - start), resolved_at=resolved, **overrides)


def test_the_option_is_json_on_the_charts_time_axis() -> None:
    option = shown()
    assert json.dumps(option, allow_nan=False)
    assert option["xAxis"] == {"type": "time", "min": int(WINDOW[0] * 1000), "max": int(WINDOW[1] * 1000)}


def test_a_run_that_started_before_the_window_is_cut_at_its_edge() -> None:
    (run,) = bars(shown(), "Runs")
    assert [at for at, _ in run["coords"]] == [int(WINDOW[0] * 1000), int(NOW * 1000)]
    assert run["name"].startswith("Run 00000002: running")
    (lost,) = bars(shown(status="lost"), "Runs")
    assert lost["name"].startswith("Run 00000002: lost")


def test_runs_outside_of_the_window_are_left_out() -> None:
    past = factories.run(1, ended=NOW - 5000)
    assert bars(shown(runs=[past]), "Runs") == []


def test_a_status_lasts_until_the_next_one() -> None:
    changes = [
        {"at": rfc3339(NOW - 100), "status": "lagging", "reason": "behind"},
        {"at": rfc3339(NOW - 400), "status": "running", "reason": "all good"},
    ]
    first, second = bars(shown(changes=changes), "Status")
    assert first["coords"][1][0] == second["coords"][0][0] == int((NOW - 100) * 1000)
    assert "behind" in second["name"]


def test_a_short_run_is_wide_enough_to_hit() -> None:
    short = factories.run(1, started_at=rfc3339(NOW - 300), ended_at=rfc3339(NOW - 299.9), end="failed")
    (run,) = bars(shown(runs=[short]), "Runs")
    assert run["coords"][1][0] - run["coords"][0][0] >= 2000


def test_concurrent_alerts_are_below_each_other_and_later_ones_move_up() -> None:
    option = shown([fired(800, 500), fired(700, 300), fired(400, None)])
    assert option["yAxis"]["data"] == ["Runs", "Status", "Alerts", timeline.alert_row_name(1), "Actions"]
    assert len(bars(option, "Alerts")) == 2
    assert len(bars(option, timeline.alert_row_name(1))) == 1


def test_an_action_is_a_point_with_requester_and_outcome() -> None:
    done = factories.action(1, state="succeeded", reason="resumed at batch 901", requested_at=NOW - 60)
    (point,) = shown(actions=[done, factories.action(2, requested_at=NOW - 5000)])["series"][1]["data"]
    assert "Restart requested by ada: memory grows" in point["name"]
    assert "Succeeded: resumed at batch 901" in point["name"]


def test_every_tooltip_uses_the_escaped_template_and_has_short_lines() -> None:
    run = factories.run(2, failure=factories.failure(message=HOSTILE + "x" * 5000))
    option = shown(runs=[run])
    assert option["tooltip"]["formatter"] == "{b}"
    assert all("tooltip" not in series for series in option["series"])
    (bar,) = bars(option, "Runs")
    assert all(len(line) <= timeline.MAX_LINE_CHARS for line in bar["name"].split("\n"))


def test_without_data_there_are_four_empty_rows() -> None:
    option = shown(runs=[], changes=[], actions=[])
    assert option["yAxis"]["data"] == ["Runs", "Status", "Alerts", "Actions"]
    assert [series["data"] for series in option["series"]] == [[], []]
    assert timeline.height(option) > 4 * timeline.ROW_HEIGHT


def test_the_tooltip_of_an_action_names_a_broken_checkpoint() -> None:
    evidence = {"code": "checkpoint_broken"}
    times = {"requested_at": NOW - 60, "state": "refused"}
    refused = factories.action(1, NOW, **times, reason="metadata is torn", evidence=evidence)
    forced = factories.action(2, NOW, **times | {"state": "failed"}, evidence={"forced_by": "ada"})
    first, second = (point["name"] for point in shown(actions=[refused, forced])["series"][1]["data"])
    assert "Refused: The checkpoint is broken: metadata is torn" in first
    assert "Forced restart requested by ada" in second


# -- events of the lake ----------------------------------------------------------------------------------


def with_past(
    past: dict[str, Any] | None, alerts: list[dict[str, Any]] | None = None, **known: Any
) -> timeline.TimelineData:
    query = factories.detail(**known)
    return timeline.with_past_events(timeline.TimelineData(query, alerts or [], WINDOW, NOW, UTC), past)


def past_run(number: int, **overrides: Any) -> dict[str, Any]:
    run = {
        "run_id": f"0000000{number}-past",
        "started_at": rfc3339(NOW - 800),
        "ended_at": rfc3339(NOW - 700),
    }
    return run | {"first_seen_at": None, "last_seen_at": None, "end": "stopped", "failure": None} | overrides


def test_events_of_the_lake_are_added_once_each() -> None:
    known = fired(600, 500, fingerprint="f")
    action = {"id": "a", "action": "stop", "state": "done", "requested_at": rfc3339(NOW - 500)}
    merged = with_past(
        {
            "runs": [past_run(1), past_run(2, run_id=factories.detail()["runs"][0]["run_id"])],
            "alerts": [{**known, "fired_at": known["fired_at"]}, fired(400, 300, fingerprint="f")],
            "actions": [action, {**action, "id": "b"}],
        },
        [known],
        actions=[action],
    )
    assert [run["run_id"] for run in merged.query["runs"]].count("00000001-past") == 1
    assert len(merged.query["runs"]) == len(factories.detail()["runs"]) + 1
    assert len(merged.alerts) == 2
    assert [action["id"] for action in merged.query["actions"]] == ["a", "b"]


def test_a_past_run_shows_its_known_bounds_and_names_the_unknown_ones() -> None:
    early = past_run(1, started_at=None)
    received = past_run(
        2, started_at=None, first_seen_at=rfc3339(NOW - 650), ended_at=None, last_seen_at=rfc3339(NOW - 600)
    )
    goes_on = past_run(
        3, ended_at=None, last_seen_at=rfc3339(NOW - 300), end=None, started_at=rfc3339(NOW - 500)
    )
    silent = past_run(4, ended_at=rfc3339(NOW - 200), end="lost", started_at=rfc3339(NOW - 200))
    merged = with_past({"runs": [early, received | {"end": None}, goes_on, silent]}, runs=[])
    shown = bars(timeline.option(merged), "Runs")
    places = [[round(NOW - at / 1000) for at, _ in run["coords"]] for run in shown]
    assert places[:3] == [[900, 700], [650, 600], [500, 300]] and places[3][1] >= 195
    names = [run["name"].splitlines() for run in shown]
    assert names[0][0] == "Run 00000001: stopped" and names[0][1].startswith("started before ")
    assert "last seen" in names[1][1] and names[1][0] == "Run 00000002: end unknown"
    assert names[2][1].startswith("started ") and "last seen" in names[2][1]
    assert names[3][0] == "Run 00000004: lost" and "batches" not in str(names)


def test_no_lake_leaves_the_timeline_as_it_is() -> None:
    bare = timeline.TimelineData(factories.detail(), [], WINDOW, NOW, UTC)
    assert timeline.option(with_past(None)) == timeline.option(bare)
