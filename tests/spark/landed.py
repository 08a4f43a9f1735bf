"""Events as drivers leave them in a landing zone, with all that goes wrong, and what must become of them."""

from __future__ import annotations

import gzip
import json
import random
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import sqlalchemy as sa

from controlplane.store import tables as t
from listeners.delivery.landing import LandingTransport
from listeners.protocol import wire
from tests.acceptance.live import LiveServer
from tests.paths import DATA

Json = dict[str, Any]
REPORTS = [json.loads(line) for line in DATA.joinpath("progress/spark-4.3.jsonl").read_text().splitlines()]
BEGAN = 1_795_000_000.0
#: What a row of `progress` is known by, and some of its figures.
Row = tuple[str, int, int, int, int]


class Driver:
    """One driver with one query; reports its events in order, as its agent would."""

    def __init__(self, chance: random.Random, name: str):
        self._chance, self._name = chance, name
        self.agent, self.query_id, self.run_id = (
            str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in "123"
        )
        self.seq, self.batch = 0, -1
        self.sent: list[bytes] = []

    def line(self, type: str, data: Json, agent: str | None = None, seq: int | None = None) -> bytes:
        if seq is None:
            self.seq += 1
            seq = self.seq
        event = wire.Event(
            agent or self.agent, seq, BEGAN + self.seq, wire.App(self._name, "local-1", "4.3.0"), type, data
        )
        return wire.encode_event(event).encode()

    def started(self) -> bytes:
        at = wire.rfc3339(BEGAN)
        return self.line("started", {"id": self.query_id, "runId": self.run_id, "name": "q", "timestamp": at})

    def report(self) -> Json:
        """The next batch; one in ten is reported as of days ago."""
        self.batch += 1
        late = 3 * 86400 if self._chance.random() < 0.1 else 0
        figures = {
            "numInputRows": self._chance.randrange(1000),
            "batchDuration": self._chance.randrange(9000),
        }
        reported = {"batchId": self.batch, "timestamp": wire.rfc3339(BEGAN + 10 * self.batch - late)}
        return {
            **REPORTS[self.batch % len(REPORTS)],
            "id": self.query_id,
            "runId": self.run_id,
            **reported,
            **figures,
        }


class Zone:
    """A landing zone that is written to, and all that must come of it."""

    def __init__(self, folder: Path, seed: int, drivers: int = 3):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._chance = folder, random.Random(seed)
        self._transport = LandingTransport(folder.as_uri())
        self.drivers = [Driver(self._chance, f"app-{n}") for n in range(drivers)]
        self._files = 0
        self.rows: dict[tuple[str, int], Row] = {}
        #: (agent, seq) -> type of what a store has to have; a report that two report counts as the first's.
        self.events: dict[tuple[str, int], str] = {}
        #: Reports reported by two: whose is stored may be the one's or the other's.
        self.either: dict[tuple[str, int], tuple[str, int]] = {}
        self.malformed: set[str] = set()
        self.others: dict[str, int] = {}
        for driver in self.drivers:
            self._send(driver, [self._event(driver, driver.started(), "started")])

    def drop(self, events: int = 20) -> None:
        """A delivery of each driver: new events, some of the old ones again, lines that are none."""
        for driver in self.drivers:
            received: list[bytes] = []
            lines = [self._progress(driver, received) for _ in range(events)]
            lines.append(self._event(driver, driver.line("heartbeat", {"uptime": 1.0}), "heartbeat"))
            self._send(driver, lines)
            if self._chance.random() < 0.5:  # the agent did not receive that it had been taken
                self._send(driver, lines[-events // 2 :])
            self._write(received)
            if self._chance.random() < 0.4:
                self._by_hand(driver, lines[-5:])

    def _progress(self, driver: Driver, received: list[bytes]) -> bytes:
        report = driver.report()
        stamp = round(wire.seconds_of(report["timestamp"]) * 1e6)
        row = (driver.run_id, report["batchId"], stamp, report["numInputRows"], report["batchDuration"])
        self.rows[row[:2]] = row
        line = self._event(driver, driver.line("progress", report), "progress")
        if self._chance.random() < 0.1:  # a second agent receives the same report
            other = str(uuid.uuid5(uuid.UUID(driver.agent), "other"))
            seq = self.others[other] = self.others.get(other, 0) + 1
            self.either[other, seq] = (driver.agent, driver.seq)
            received.append(driver.line("progress", report, other, seq))
        return line

    def _event(self, driver: Driver, line: bytes, type: str) -> bytes:
        self.events[driver.agent, driver.seq] = type
        return line

    def _send(self, driver: Driver, lines: Sequence[bytes]) -> None:
        self._transport.send(lines)

    def _by_hand(self, driver: Driver, lines: Sequence[bytes]) -> None:
        self._files += 1
        bad = [f'{{"not": "an event {self._files}"}}', f"no JSON {self._files}", "{" * 200 + str(self._files)]
        self.malformed |= set(bad)
        mixed = [*lines, *(text.encode() for text in bad), b""]
        self._chance.shuffle(mixed)
        self._write(mixed)

    def _write(self, lines: Sequence[bytes]) -> None:
        """As somebody else's program would: plain or gzip, beside and renamed."""
        if not lines:
            return
        self._files += 1
        display_root = self._chance.random() < 0.5
        name = f"by-hand-{self._files:06d}.ndjson" + ("" if display_root else ".gz")
        content = b"\n".join(lines) + b"\n"
        passing = self.folder / f"_{name}"
        passing.write_bytes(content if display_root else gzip.compress(content, 1))
        passing.rename(self.folder / name)


def rows_by_duckdb(lake: Path) -> list[Row]:
    """As any reader sees the lake: by a glob."""
    sql = (
        "select run_id, batch_id, epoch_us(trigger_at), input_rows, duration_ms "
        f"from read_parquet('{lake}/progress/**/*.parquet') order by all"
    )
    return duckdb.sql(sql).fetchall()


def rejected(lake: Path) -> list[str]:
    files = sorted((lake / "_rejected").glob("*.ndjson"))
    return [json.loads(line)["line"] for file in files for line in file.read_text().splitlines()]


def stored(server: LiveServer, but: str) -> list[tuple[str, int, str]]:
    """(agent, seq, type) of all that the store has, but what the app `but` reported."""
    wanted = sa.select(t.agents.c.agent, t.events.c.seq, t.events.c.type).join(
        t.agents, t.agents.c.key == t.events.c.agent_key
    )
    with server.plane.reading() as connection:
        found = connection.execute(wanted.where(t.agents.c.app != but)).all()
    return sorted((row.agent, row.seq, row.type) for row in found)


def stored_rows(server: LiveServer, zone: Zone) -> list[Row]:
    """The same rows out of the store, read as events of each driver's query."""
    from controlplane.store.blobs import Unpacker

    with server.plane.reading() as connection:
        unpacker = Unpacker(connection)
        runs = {driver.run_id for driver in zone.drivers}
        wanted = sa.select(t.events.c.dictionary, t.events.c.data).where(t.events.c.type == "progress")
        reported = [unpacker.unpack(*row) for row in connection.execute(wanted).all()]
    return sorted(
        (
            item["runId"],
            item["batchId"],
            round(wire.seconds_of(item["timestamp"]) * 1e6),
            item["numInputRows"],
            item["batchDuration"],
        )
        for item in reported
        if item["runId"] in runs
    )
