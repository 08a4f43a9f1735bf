"""Feeds the demonstration's file streams: one small file a second for each, and one poisoned payment.

What a second holds is a pure function of that second; writing is a thin shell around it. Files appear whole
(written beside, then renamed), since Spark reads a file once, when it first sees it.
"""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

ORDERS_PER_SECOND = 20
PAYMENTS_PER_SECOND = 5
#: The payment whose amount is not a number, in seconds after the feeding began.
POISON_SECOND = 60
#: Files older than this were read long ago; a folder of thousands makes every listing slow.
KEPT_SECONDS = 3600
SHOPS = ("berlin", "lagos", "lima", "osaka")


def orders(second: int, now: float) -> list[dict[str, object]]:
    """The orders of one second; `now` in Unix seconds is when they were placed."""
    placed = datetime.fromtimestamp(now, UTC).isoformat()
    first = second * ORDERS_PER_SECOND
    return [
        {
            "order_id": n,
            "shop": SHOPS[n % len(SHOPS)],
            "amount": 5.0 + n * 37 % 400 / 10,
            "ordered_at": placed,
        }
        for n in range(first, first + ORDERS_PER_SECOND)
    ]


def payments(second: int) -> list[dict[str, object]]:
    """The payments of one second; in the second POISON_SECOND one has an amount that no bank would send."""
    first = second * PAYMENTS_PER_SECOND
    rows: list[dict[str, object]] = [
        {"payment_id": n, "amount": f"{n * 13 % 500}.{n % 100:02d}"}
        for n in range(first, first + PAYMENTS_PER_SECOND)
    ]
    if second == POISON_SECOND:
        rows[2]["amount"] = "twelve euros"
    return rows


def write_rows(folder: Path, second: int, rows: list[dict[str, object]]) -> None:
    """One file of JSON lines that appears whole."""
    hidden = folder / f".{second:08d}.json.part"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    hidden.replace(folder / f"{second:08d}.json")


class Feeder:
    """A thread that writes one second after another until it is told to stop."""

    def __init__(self, folder: Path, second_length: float = 1.0):
        self._orders, self._payments = folder / "orders", folder / "payments"
        self._length = second_length
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-feeder", daemon=True)

    def start(self) -> None:
        for folder in (self._orders, self._payments):
            folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        second = 0
        while not self._stop.wait(self._length):
            self.write(second, time.time())
            second += 1

    def write(self, second: int, now: float) -> None:
        write_rows(self._orders, second, orders(second, now))
        write_rows(self._payments, second, payments(second))
        for folder in (self._orders, self._payments):
            (folder / f"{second - KEPT_SECONDS:08d}.json").unlink(missing_ok=True)
