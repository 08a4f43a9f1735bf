"""What the demonstration feeds its streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo import feeder


def is_number(row: dict[str, Any]) -> bool:
    return str(row["amount"]).replace(".", "", 1).isdigit()


def test_order_numbers_go_on_from_second_to_second_and_one_comes_twice() -> None:
    numbers = [row["order_id"] for second in range(3) for row in feeder.orders(second, 0.0)]
    assert sorted(set(numbers)) == list(range(3 * feeder.ORDERS_PER_SECOND))
    assert len(numbers) - len(set(numbers)) == 2


def test_an_order_that_comes_again_is_the_same_order() -> None:
    last = feeder.orders(6, 1000.0)[-1]
    assert feeder.orders(7, 1001.0)[0] == last


def test_a_payment_is_for_an_order_of_some_seconds_before() -> None:
    paid = {row["order_id"] for row in feeder.payments(10, 0.0)}
    assert len(paid) == feeder.PAYMENTS_PER_SECOND
    assert paid <= {row["order_id"] for row in feeder.orders(10 - feeder.PAYMENT_DELAY_SECONDS, 0.0)}


def test_exactly_one_payment_is_no_number() -> None:
    bad = [
        (second, row["payment_id"])
        for second in range(2 * feeder.POISON_SECOND)
        for row in feeder.payments(second, 0.0)
        if not is_number(row)
    ]
    assert bad == [(feeder.POISON_SECOND, feeder.POISON_SECOND * feeder.PAYMENTS_PER_SECOND + 2)]


def test_the_app_falls_silent_and_the_web_does_not() -> None:
    assert feeder.app_visits(feeder.SILENT_SECOND - 1, 0.0) == feeder.web_visits(0, 0.0)
    assert feeder.app_visits(feeder.SILENT_SECOND, 0.0) == []
    assert feeder.web_visits(10 * feeder.SILENT_SECOND, 0.0)


def test_a_file_appears_whole_and_no_half_of_it_stays(tmp_path: Path) -> None:
    feeder.write_rows(tmp_path, 7, [{"a": 1}, {"a": 2}])
    assert [path.name for path in tmp_path.iterdir()] == ["00000007.json"]
    lines = (tmp_path / "00000007.json").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"a": 1}, {"a": 2}]


def test_files_that_were_read_an_hour_ago_are_removed(tmp_path: Path) -> None:
    for name in feeder.FEEDS:
        (tmp_path / name).mkdir()
    for second in (0, 1, feeder.KEPT_SECONDS):
        feeder.write(tmp_path, second, 0.0)
    kept = sorted(path.name for path in (tmp_path / "orders").iterdir())
    assert kept == ["00000001.json", f"{feeder.KEPT_SECONDS:08d}.json"]


@pytest.mark.parametrize("name", feeder.FEEDS)
def test_each_folder_is_fed_until_the_stop(name: str, tmp_path: Path) -> None:
    left = iter([False] * 3 + [True])
    feeder.feed(tmp_path, lambda: next(left))
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == [f"{n:08d}.json" for n in range(3)]
