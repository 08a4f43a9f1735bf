"""Feeds the demonstration's file streams: a small file a second for each; one payment is poisoned.

What a second holds is a pure function of that second; `feed` is the loop around it, a process of its own.
Files appear whole (written beside, then renamed), since Spark reads a file once, when it first sees it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

ORDERS_PER_SECOND = 20
PAYMENTS_PER_SECOND = 5
#: Orders are paid so many seconds later.
PAID_AFTER = 3
#: The payment whose amount is not a number, in seconds after the feeding began.
POISON_SECOND = 60
#: The app reports no visit from this second on.
SILENT_SECOND = 30
#: Files older than this were read long ago; a folder of thousands makes every listing slow.
KEPT_SECONDS = 3600
SHOPS = ("berlin", "lagos", "lima", "osaka")
PAGES = ("home", "search", "basket")

Row = dict[str, object]


def orders(second: int, now: float) -> list[Row]:
    """The orders of one second; `now` in Unix seconds is when they were placed. One came before."""
    first = second * ORDERS_PER_SECOND
    again = [] if second == 0 else [_order(first - 1, now - 1)]
    return again + [_order(number, now) for number in range(first, first + ORDERS_PER_SECOND)]


def _order(number: int, placed: float) -> Row:
    return {
        "order_id": number,
        "shop": SHOPS[number % len(SHOPS)],
        "amount": 5.0 + number * 37 % 400 / 10,
        "ordered_at": _time(placed),
    }


def payments(second: int, now: float) -> list[Row]:
    """The payments of one second; in the second POISON_SECOND one has an amount that no bank would send."""
    first = second * PAYMENTS_PER_SECOND
    ordered = max(0, second - PAID_AFTER) * ORDERS_PER_SECOND
    rows: list[Row] = [
        {
            "payment_id": number,
            "order_id": ordered + number % PAYMENTS_PER_SECOND,
            "amount": f"{number * 13 % 500}.{number % 100:02d}",
            "paid_at": _time(now),
        }
        for number in range(first, first + PAYMENTS_PER_SECOND)
    ]
    if second == POISON_SECOND:
        rows[2]["amount"] = "twelve euros"
    return rows


def web_visits(second: int, now: float) -> list[Row]:
    return [{"page": page, "visited_at": _time(now)} for page in PAGES]


def app_visits(second: int, now: float) -> list[Row]:
    """As on the web, until the app falls silent."""
    return web_visits(second, now) if second < SILENT_SECOND else []


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


#: Folder → what the second since the beginning brings, at the Unix time given.
FEEDS: Mapping[str, Callable[[int, float], list[Row]]] = {
    "orders": orders,
    "payments": payments,
    "visits_web": web_visits,
    "visits_app": app_visits,
}


def write_rows(folder: Path, second: int, rows: list[Row]) -> None:
    """One file of JSON lines that appears whole."""
    hidden = folder / f".{second:08d}.json.part"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    hidden.replace(folder / f"{second:08d}.json")


def write(folder: Path, second: int, now: float) -> None:
    """All files of one second; those that grew old go."""
    for name, rows_of in FEEDS.items():
        rows = rows_of(second, now)
        if rows:
            write_rows(folder / name, second, rows)
        (folder / name / f"{second - KEPT_SECONDS:08d}.json").unlink(missing_ok=True)


def feed(folder: Path, wait: Callable[[], bool]) -> None:
    """Write one second after another until `wait`, which takes a second, says that it is over."""
    for name in FEEDS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    second = 0
    while not wait():
        write(folder, second, time.time())
        second += 1


def main() -> None:
    """`feeder FOLDER`: until it is killed, at any moment, since no file is ever seen by half."""

    def wait() -> bool:
        time.sleep(1.0)
        return False

    feed(Path(sys.argv[1]), wait)
