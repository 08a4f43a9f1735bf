"""`controlplane demo`: what it lists and refuses, without starting anything."""

from __future__ import annotations

import json

import pytest

from controlplane.cli.main import run


def test_the_list_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    expected = {entry["query"]: (entry["expected_status"], entry["expected_alert"]) for entry in listed}
    assert expected == {
        "orders_copy": ("running", None),
        "orders_by_minute": ("running", None),
        "orders_paid": ("running", None),
        "orders_once": ("running", None),
        "orders_backfill": ("finished", None),
        "clicks_slow": ("lagging", "LagGrowing"),
        "clicks_blocked": ("stuck", "Stuck"),
        "visits_growing": ("running", "StateGrowthWithoutEviction"),
        "visits_waiting": ("running", "WatermarkStuck"),
        "payments_poison": ("failed", "QueryFailed"),
        "invoices_crashing": ("failed", "CrashLoop"),
        "balances_damaged": ("failed", "CheckpointTrouble"),
        "refunds_vanished": ("lost", "QuerySilentlyGone"),
        "statements_late": ("running", "Overrun"),
        "couriers_gone": ("lost", "AgentLost"),
    }


def test_the_list_for_people_has_a_line_for_each_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--list", "--only", "steady_copy", "crash_loop"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["TROUBLE", "QUERY", "STATUS", "ALERT", "WHAT"]
    assert [row.split()[:4] for row in rows] == [
        ["steady_copy", "orders_copy", "running", "-"],
        ["crash_loop", "invoices_crashing", "failed", "CrashLoop"],
    ]


@pytest.mark.parametrize(
    "chosen",
    [
        ["--only", "slow_consumer", "steady_copy"],
        ["--only", "slow_consumer,steady_copy"],
        ["--only", "steady_copy", "--only", "slow_consumer"],
    ],
)
def test_troubles_are_chosen_in_any_of_three_ways(
    chosen: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", "--list", "--json", *chosen]) == 0
    assert [entry["trouble"] for entry in json.loads(capsys.readouterr().out)] == [
        "steady_copy",
        "slow_consumer",
    ]


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--only", "nonsense"], "there is no trouble nonsense"),
        (["nonsense"], "unexpected argument 'nonsense'"),
        (["--minutes", "0"], "0.0 is not in the range"),
        (["--port", "70000"], "70000 is not in the range"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    arguments: list[str], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert reported in printed.err
