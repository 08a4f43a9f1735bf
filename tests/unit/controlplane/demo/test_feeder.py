"""What the demonstration feeds its streams."""

from __future__ import annotations

import json
import time
from pathlib import Path

from controlplane.demo import feeder


def test_order_numbers_go_on_from_second_to_second_without_a_gap() -> None:
    numbers = [row["order_id"] for second in range(3) for row in feeder.orders(second, 0.0)]
    assert numbers == list(range(3 * feeder.ORDERS_PER_SECOND))


def test_exactly_one_payment_is_no_number() -> None:
    def is_number(row: dict[str, object]) -> bool:
        return str(row["amount"]).replace(".", "", 1).isdigit()

    bad = [
        (second, row["payment_id"])
        for second in range(2 * feeder.POISON_SECOND)
        for row in feeder.payments(second)
        if not is_number(row)
    ]
    assert bad == [(feeder.POISON_SECOND, feeder.POISON_SECOND * feeder.PAYMENTS_PER_SECOND + 2)]


def test_a_file_appears_whole_and_no_half_of_it_stays(tmp_path: Path) -> None:
    feeder.write_rows(tmp_path, 7, [{"a": 1}, {"a": 2}])
    assert [path.name for path in tmp_path.iterdir()] == ["00000007.json"]
    lines = (tmp_path / "00000007.json").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"a": 1}, {"a": 2}]


def test_files_that_were_read_an_hour_ago_are_removed(tmp_path: Path) -> None:
    fed = feeder.Feeder(tmp_path)
    (tmp_path / "orders").mkdir()
    (tmp_path / "payments").mkdir()
    for second in (0, 1, feeder.KEPT_SECONDS):
        fed.write(second, 0.0)
    kept = sorted(path.name for path in (tmp_path / "orders").iterdir())
    assert kept == ["00000001.json", f"{feeder.KEPT_SECONDS:08d}.json"]


def test_the_thread_feeds_both_folders_until_it_is_stopped(tmp_path: Path) -> None:
    fed = feeder.Feeder(tmp_path, second_length=0.001)
    fed.start()
    deadline = time.monotonic() + 20
    while not (tmp_path / "payments" / "00000002.json").exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    fed.stop()
    written = len(list((tmp_path / "orders").iterdir()))
    assert written == len(list((tmp_path / "payments").iterdir())) >= 3
