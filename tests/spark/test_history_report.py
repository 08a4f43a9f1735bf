"""`history report` with real Spark over a lake of a fleet over weeks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controlplane.cli.history.report import report
from controlplane.console.errors import UsageProblem
from tests.spark.grown_lake import HOSTILE, grow

pytestmark = pytest.mark.spark
WEEKS = ["--since", "2026-03-01", "--until", "2026-03-15"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(grow(str(tmp_path_factory.mktemp("grown")), queries=8, days=14).folder)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(report, list(arguments), standalone_mode=False)


def test_a_report_finds_what_was_put_into_the_lake(spark: Any, lake: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = run("--lake", lake, *WEEKS, "--limit-state-rows", "4000000", "--out", str(page), "--json")
    assert done.exception is None, done.output
    reported = json.loads(done.stdout)
    queries = {item["query"].rpartition("-")[2]: item for item in reported["queries"]}
    assert reported["queries"][0]["query"].endswith("-4") and reported["queries"][0]["attainment"] < 0.95
    assert {n for n, query in queries.items() if query["lag_trend"]["direction"] == "up"} == {"3"}
    assert {
        n
        for n, query in queries.items()
        if query["state_rows"] and query["state_rows"]["trend"]["direction"] == "up"
    } == {"1", "2"}
    until = queries["1"]["state_rows"]["reached_in_days"]
    assert until["early"] <= until["days"] <= until["late"] and 5 < until["days"] < 11
    assert queries["5"]["restarts"]["runs"] == 28 and queries["5"]["restarts"]["rows_repeated"] == 27 * 500
    assert queries["5"]["restarts"]["first_batch_seconds_median"] == 12
    assert {n for n, query in queries.items() if query["headroom"]["tight"]} == {"6"}
    assert next(item["name"] for item in reported["alerts"] if item["noisy"]) == "BatchSlow"
    assert "<script" not in page.read_text()


def test_a_query_may_be_chosen_by_name_or_id_whatever_it_is_called(spark: Any, lake: str) -> None:
    by_name = json.loads(run("--lake", lake, *WEEKS, "--query", HOSTILE, "--json").stdout)
    assert [item["query"] for item in by_name["queries"]] == [HOSTILE]
    chosen = by_name["queries"][0]["query_id"]
    printed = f"{by_name['queries'][0]['app']}/{HOSTILE}"
    assert (
        json.loads(run("--lake", lake, *WEEKS, "--query", printed, "--json").stdout)["queries"]
        == by_name["queries"]
    )
    by_id = json.loads(run("--lake", lake, *WEEKS, "--query", chosen, "--json").stdout)
    assert by_id["queries"] == by_name["queries"]


def test_a_time_without_data_is_an_empty_report(spark: Any, lake: str) -> None:
    reported = json.loads(
        run("--lake", lake, "--since", "2020-01-01", "--until", "2020-02-01", "--json").stdout
    )
    assert reported["queries"] == [] and reported["fleet"]["attainment"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--out report.html or --json"),
        (["--json", "--since", "2026-02-01", "--until", "2026-01-01"], "is not before --until"),
        (["--out", "no-such-folder/report.html"], "does not exist"),
    ],
    ids=["nowhere-to-go", "backwards", "no-folder"],
)
def test_mistakes_are_one_clear_line(lake: str, arguments: list[str], message: str) -> None:
    done = run("--lake", lake, *arguments)
    assert isinstance(done.exception, UsageProblem) and message in done.exception.message
