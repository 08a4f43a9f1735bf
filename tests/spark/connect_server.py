"""A Spark Connect server as a process, and a TCP relay to it that can be cut."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.ports import free_port
from tests.spark.deployment import wait_for

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """Keeps its port when it is killed and started again."""

    def __init__(self, directory: Path):
        self._directory = directory
        self.port = free_port()
        self.url = f"sc://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        import pyspark

        home = os.path.dirname(pyspark.__file__)
        settings = {
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": str(self._directory / "warehouse"),
        }
        output = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = [
            home + "/bin/spark-submit",
            "--class",
            MAIN,
            "--master",
            "local[2]",
            "--driver-memory",
            "1g",
        ]
        with (self._directory / "connect.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *output],
                cwd=self._directory,
                env={**os.environ, "SPARK_HOME": home},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for(self._listens, 300)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "connect.log").read_text()[-3000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Wire:
    """A TCP relay to a port. While it is cut, it resets its connections and refuses new ones."""

    def __init__(self, port: int):
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"sc://127.0.0.1:{self._listening.getsockname()[1]}"
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._cut = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()
        for pair in self._pairs:
            for end in pair:
                _reset(end)
        self._pairs.clear()

    def mend(self) -> None:
        self._cut.clear()

    def close(self) -> None:
        self.cut()
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                here, _ = self._listening.accept()
                if self._cut.is_set():
                    _reset(here)
                    continue
                there = socket.create_connection(("127.0.0.1", self._port))
                self._pairs.append((here, there))
                threading.Thread(target=_relay, args=(here, there), daemon=True).start()


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
        end.close()


def _relay(here: socket.socket, there: socket.socket) -> None:
    with selectors.DefaultSelector() as selector, contextlib.suppress(OSError, ValueError):
        selector.register(here, selectors.EVENT_READ, there)
        selector.register(there, selectors.EVENT_READ, here)
        while True:
            for key, _ in selector.select():
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if not data:
                    return _reset_both(here, there)
                key.data.sendall(data)


def _reset_both(here: socket.socket, there: socket.socket) -> None:
    _reset(here)
    _reset(there)


@contextlib.contextmanager
def connect_server(directory: Path) -> Iterator[ConnectServer]:
    server = ConnectServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()
