"""What is lost or doubled when server, drivers, disk, database, clock and network fail while events arrive.

It needs root, unshare and iptables: it runs in namespaces of its own (mounts and network). Drivers send without a pause,
and send again what was not acknowledged; each round has one fault, whose duration is random. In the end each event that
was acknowledged must be stored once. Meanwhile endpoints are read: each answer must come within 5 s, and an error must
state its reason.

    python bench/faults.py [--fault KIND …] [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.fault_parts import Plane, Prober, Sender  # noqa: E402
from tests.stores import postgres_server  # noqa: E402

DRIVERS, DISK_MB = 4, 48

# -- faults: each is one round, and leaves all in order -----------------------------------------


def pause(low: float = 0.2, high: float = 1.5) -> None:
    time.sleep(random.uniform(low, high))


def server_killed(plane: Plane, prober: Prober, _: Path | None) -> None:
    pause()
    prober.leave()
    plane.kill()
    plane.start()
    prober.away.clear()


def disk_full(plane: Plane, prober: Prober, _: Path | None) -> None:
    filler = plane.folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(b"x" * 65536)
            file.flush()
    pause(3.0, 8.0)
    filler.unlink()
    plane.await_ready()
    pause()


def disk_read_only(plane: Plane, prober: Prober, _: Path | None) -> None:
    """A disk becomes read-only when nobody has a file open for writing: at the start of a server, which must say so."""
    pause()
    prober.leave()
    plane.kill()
    subprocess.run(["mount", "-o", "remount,ro", plane.folder], check=True)
    try:
        done = subprocess.run(
            plane.command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        if done.returncode == 0 or "Traceback" in done.stderr or not done.stderr.strip():
            prober.bad[f"start on a read-only disk: {done.returncode} {done.stderr[-300:]}"] += 1
    finally:
        subprocess.run(["mount", "-o", "remount,rw", plane.folder], check=True)
    plane.start()
    prober.away.clear()


def postgres(action: str) -> Callable[[Plane, Prober, Path | None], None]:
    def fault(plane: Plane, prober: Prober, data: Path | None) -> None:
        assert data
        pid = int((data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pids = [pid, *map(int, children)]
        pause()
        if action == "hanging":
            for each in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGSTOP)
            pause(4.0, 12.0)
            for each in reversed(pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)
        else:
            for each in pids if action == "killed" else [pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL if action == "killed" else signal.SIGINT)
            pause(2.0, 5.0)
            restart_postgres(data)
        plane.await_ready()

    return fault


def restart_postgres(data: Path) -> None:
    settings = f"-c listen_addresses='' -c unix_socket_directories='{data.parent}'"
    command = ["pg_ctl", "-D", str(data), "-o", settings, "-l", str(data.parent / "log"), "-w", "start"]
    for _ in range(20):  # memory of the killed server is freed after its last process has ended
        if (
            subprocess.run(
                command, check=False, user="postgres", cwd=data.parent, capture_output=True
            ).returncode
            == 0
        ):
            return
        time.sleep(0.5)
    raise SystemExit("PostgreSQL did not start again")


def clock_jumps(plane: Plane, prober: Prober, _: Path | None) -> None:
    plane.shift.write_text(str(random.choice([3600.0, -3600.0])))
    pause(1.0, 3.0)
    plane.shift.write_text("0")
    pause(1.0, 3.0)


def network_cut(plane: Plane, prober: Prober, _: Path | None) -> None:
    """Packets to the server and from it are dropped."""
    prober.leave()
    rules = [["INPUT", "-p", "tcp", f"--{side}port", str(plane.port), "-j", "DROP"] for side in "ds"]
    for rule in rules:
        subprocess.run(["iptables", "-A", *rule], check=True)
    pause(2.0, 8.0)
    for rule in rules:
        subprocess.run(["iptables", "-D", *rule], check=True)
    plane.await_ready()
    prober.away.clear()
    pause()


FAULTS: dict[str, Callable[[Plane, Prober, Path | None], None]] = {
    "server_killed": server_killed,
    "disk_full": disk_full,
    "disk_read_only": disk_read_only,
    "postgres_stopped": postgres("stopped"),
    "postgres_killed": postgres("killed"),
    "postgres_hanging": postgres("hanging"),
    "clock_jumps": clock_jumps,
    "network_cut": network_cut,
}

# -- drivers that are killed --------------------------------------------------------------------

#: A driver whose agent puts events into its spool; prints how many the spool has.
DRIVER = """
import json, sys, time, uuid
from pathlib import Path
from listeners.agent import AgentThreads, Identity
from listeners.delivery.inbox import Inbox
from listeners.delivery.transport import HttpTransport
from listeners.protocol import wire
from tests.drivers import report
url, token, spool = sys.argv[1:]
inbox = Inbox()
agent = AgentThreads(Identity(wire.App("killed"), {}), inbox, HttpTransport(url, token), Path(spool), {"app": "killed"},
                     lambda command: wire.CommandResult("failed"))
agent.start()
query, run = str(uuid.uuid4()), str(uuid.uuid4())
print(query, flush=True)
for batch in range(1_000_000):
    inbox.put("progress", json.dumps(report(query, run, batch, time.time())))
    print(batch, flush=True)
    time.sleep(0.005)
"""


def drivers_killed(rounds: int) -> dict[str, Any]:
    """Drivers end by SIGKILL; `controlplane spool send` delivers what they left."""
    gaps = doubled = stored = 0
    with tempfile.TemporaryDirectory() as name:
        plane = Plane(Path(name), [])
        url, spools = f"http://127.0.0.1:{plane.port}", Path(name) / "spools"
        environment = os.environ | {"PYTHONPATH": str(ROOT), "CONTROLPLANE_TOKEN": plane.token("agent")}
        queries = []
        for number in range(rounds):
            spool = spools / str(number)
            spool.mkdir(parents=True)
            command = [sys.executable, "-c", DRIVER, url, plane.token("agent"), str(spool)]
            with subprocess.Popen(
                command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True
            ) as driver:
                assert driver.stdout
                queries.append(driver.stdout.readline().strip())
                reader = threading.Thread(target=driver.stdout.read, daemon=True)
                reader.start()
                pause(0.5, 2.0)
                driver.kill()
                reader.join(10)
            send = [sys.executable, "-m", "controlplane", "spool", "send", "--server", url, str(spool)]
            done = subprocess.run(
                send, check=False, env=environment, cwd=ROOT, capture_output=True, text=True
            )
            if done.returncode:
                raise SystemExit(f"spool send: {done.stdout}{done.stderr}")
        plane.kill(signal.SIGTERM)
        seqs = stored_events(f"sqlite:///{plane.data_dir / 'controlplane.db'}")
        for found in seqs.values():
            stored += len(found)
            doubled += len(found) - len(set(found))
            gaps += max(found) - min(found) + 1 - len(set(found))
    return {"rounds": rounds, "stored": stored, "lost": gaps, "doubled": doubled, "drivers": len(seqs)}


# -- measurement --------------------------------------------------------------------------------


def stored_events(url: str) -> dict[str, list[int]]:
    """The sequence numbers of each agent in a store."""
    engine = sa.create_engine(url)
    found: dict[str, list[int]] = {}
    with engine.connect() as connection:
        statement = "select a.agent, e.seq from events e join agents a on a.key = e.agent_key"
        for agent, seq in connection.execute(sa.text(statement)):
            found.setdefault(agent, []).append(seq)
    engine.dispose()
    return found


@contextlib.contextmanager
def store_of(kind: str, folder: Path) -> Iterator[tuple[str | None, Path | None]]:
    """The URL of a PostgreSQL database and its server's directory, for the faults that need one."""
    if kind.startswith("disk"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)], check=True)
    try:
        if not kind.startswith("postgres"):
            yield None, None
            return
        with (
            postgres_server() as url
        ):  # its own database: connections of a helper would not outlive the faults
            yield url, Path(str(make_url(url).query["host"])) / "data"
    finally:
        if kind.startswith("disk"):
            subprocess.run(["umount", "-l", str(folder)], check=True)


def measure(kind: str, rounds: int) -> dict[str, Any]:
    """Figures of one kind of fault."""
    with tempfile.TemporaryDirectory() as name, store_of(kind, Path(name)) as (url, data):
        plane = Plane(Path(name), ["--database-url", url] if url else [], clock=kind == "clock_jumps")
        senders = [Sender(plane.port, plane.token("agent"), number) for number in range(DRIVERS)]
        prober = Prober(plane.port, plane.token("admin"), senders[0].query)
        for _ in range(rounds):
            FAULTS[kind](plane, prober, data)
        time.sleep(2.0)
        for sender in senders:
            sender.stop()
        prober.stop()
        plane.kill(signal.SIGTERM)
        stored = stored_events(url or f"sqlite:///{plane.data_dir / 'controlplane.db'}")
    lost = doubled = 0
    for sender in senders:
        found = stored.get(sender.driver.agent, [])
        lost += len(sender.acknowledged - set(found))
        doubled += len(found) - len(set(found))
    return {
        "rounds": rounds,
        "acknowledged": sum(len(sender.acknowledged) for sender in senders),
        "lost": lost,
        "doubled": doubled,
        "refused": dict(sum((sender.refused for sender in senders), Counter())),
        "answers": dict(prober.answers),
        "slowest_answer_seconds": round(prober.slowest, 2),
        "bad_answers": dict(prober.bad),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = [*FAULTS, "drivers_killed"]
    parser.add_argument("--fault", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="one round each")
    chosen = parser.parse_args()
    needed = ["unshare", "ip", *(["iptables"] if "network_cut" in chosen.fault else [])]
    if missing := [program for program in needed if shutil.which(program) is None]:
        raise SystemExit(f"faults: install {', '.join(missing)}, or leave out what needs them with --fault")
    if os.environ.get("CONTROLPLANE_FAULTS") != "1":
        again = ["unshare", "--mount", "--net", sys.executable, *sys.argv]
        raise SystemExit(subprocess.call(again, env=os.environ | {"CONTROLPLANE_FAULTS": "1"}))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    rounds = 1 if chosen.quick else chosen.rounds
    figures = {}
    for kind in chosen.fault:
        figures[kind] = drivers_killed(rounds) if kind == "drivers_killed" else measure(kind, rounds)
        print(json.dumps({kind: figures[kind]}), flush=True)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    ratios = {"lost_or_doubled": sum(found["lost"] + found["doubled"] for found in figures.values())}
    print(json.dumps({"bench": "faults", "machine": machine, "figures": figures, "ratios": ratios}))


if __name__ == "__main__":
    main()
