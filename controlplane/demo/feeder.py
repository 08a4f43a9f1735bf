"""Writer of the demo's input files: one small file a second for each stream; one payment is malformed.

The content is a pure function of the second; `feed` is the loop around it, a process of its own. Files are written
beside and renamed, since Spark reads a file once, when it first sees it.
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
#: Seconds between an order and its payment.
PAYMENT_DELAY_SECONDS = 3
#: The second whose third payment has an amount that is not a number.
POISON_SECOND = 60
#: The app reports no visit from this second on.
SILENT_SECOND = 30
#: Older files are deleted: a directory of thousands makes every listing slow.
KEPT_SECONDS = 3600
SHOPS = ("berlin", "lagos", "lima", "osaka")
PAGES = ("home", "search", "basket")

Row = dict[str, object]


def orders(second: int, now: float) -> list[Row]:
    """Orders placed at `now` (Unix seconds), with a duplicate of the last order before."""
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
    """Payments of one second; in POISON_SECOND one amount is not a number."""
    first = second * PAYMENTS_PER_SECOND
    ordered = max(0, second - PAYMENT_DELAY_SECONDS) * ORDERS_PER_SECOND
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
    """Visits on the web site."""
    return [{"page": page, "visited_at": _time(now)} for page in PAGES]


def app_visits(second: int, now: float) -> list[Row]:
    """Visits in the app: none from SILENT_SECOND on."""
    return web_visits(second, now) if second < SILENT_SECOND else []


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


#: Directory -> rows of a second (counted from the start) at a Unix time.
FEEDS: Mapping[str, Callable[[int, float], list[Row]]] = {
    "orders": orders,
    "payments": payments,
    "visits_web": web_visits,
    "visits_app": app_visits,
}


def write_rows(folder: Path, second: int, rows: list[Row]) -> None:
    """Write one file of JSON lines atomically."""
    hidden = folder / f".{second:08d}.json.part"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    hidden.replace(folder / f"{second:08d}.json")


def write(folder: Path, second: int, now: float) -> None:
    """Write all files of one second and delete those past KEPT_SECONDS."""
    for name, rows_of in FEEDS.items():
        rows = rows_of(second, now)
        if rows:
            write_rows(folder / name, second, rows)
        (folder / name / f"{second - KEPT_SECONDS:08d}.json").unlink(missing_ok=True)


def feed(folder: Path, wait: Callable[[], bool]) -> None:
    """Write one second after another until `wait`, which takes a second, returns True."""
    for name in FEEDS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    second = 0
    while not wait():
        write(folder, second, time.time())
        second += 1


def main() -> None:
    """`feeder DIRECTORY`: runs until it is killed; no file is ever visible in part."""

    def wait() -> bool:
        time.sleep(1.0)
        return False

    feed(Path(sys.argv[1]), wait)
