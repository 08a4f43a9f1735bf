"""`controlplane demo`: what it lists and refuses, without starting anything."""

from __future__ import annotations

import json

import pytest

from controlplane.cli.main import run


def test_the_list_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {entry["query"]: entry["expected_status"] for entry in listed} == {
        "orders_copy": "running",
        "orders_by_minute": "running",
        "clicks_slow": "lagging",
        "payments_poison": "failed",
    }


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
    ("arguments", "told"),
    [
        (["--only", "nonsense"], "no trouble is called nonsense"),
        (["nonsense"], "unexpected argument 'nonsense'"),
        (["--minutes", "0"], "0.0 is not in the range"),
        (["--port", "70000"], "70000 is not in the range"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert told in printed.err
