"""A real Prometheus over a given set of series, to ask it the same questions as our evaluator.

Debian's package is version 2.42; its windows still hold a sample that lies on their left edge, so the series
here have no sample at a time that any question has as an edge.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from alerts.promql.series import Series
from tests.ports import free_port


@dataclass
class Peer:
    """`query` and `query_range` give the JSON's `data`; an expression that it refuses is a PeerError."""

    url: str
    pid: int = 0

    def query(self, expression: str, at: float, **more: str) -> Any:
        return self._ask("query", query=expression, time=at, **more)

    def query_range(self, expression: str, start: float, end: float, step: float, **more: str) -> Any:
        return self._ask("query_range", query=expression, start=start, end=end, step=step, **more)

    def _ask(self, path: str, **parameters: Any) -> Any:
        parameters = {name: _as_the_peer_names_it(str(value)) for name, value in parameters.items()}
        data = urllib.parse.urlencode(parameters).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}", data, timeout=120) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise PeerError(json.load(error)["error"]) from None


class PeerError(Exception):
    """Prometheus refused an expression, or could not evaluate it."""


def _as_the_peer_names_it(expression: str) -> str:
    """Prometheus 2 has an older name for a function."""
    return expression.replace("double_exponential_smoothing", "holt_winters")


def without_peer(reason: str) -> NoReturn:
    message = f"Prometheus {reason}; on Debian: apt-get install prometheus"
    if os.environ.get("CONTROLPLANE_REQUIRE_ALL") == "1":
        pytest.fail(message)
    pytest.skip(message)


@contextlib.contextmanager
def peer_over(
    series: Sequence[Series], folder: Path, config: str = "{}", options: Sequence[str] = ()
) -> Iterator[Peer]:
    """Prometheus on a free port with these series as blocks on its disk; `config` is its prometheus.yml."""
    prometheus, promtool = shutil.which("prometheus"), shutil.which("promtool")
    if prometheus is None or promtool is None:
        without_peer("and promtool are not installed")
    if series:
        with (folder / "series.om").open("w", encoding="utf-8") as file:
            file.writelines(openmetrics(series))
        make = [promtool, "tsdb", "create-blocks-from", "openmetrics", "series.om", "data"]
        subprocess.run(make, cwd=folder, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    port = free_port()
    serve = [
        prometheus,
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.console.templates=.",
        "--web.console.libraries=.",
        "--log.level=error",
        *options,
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(serve, cwd=folder, stdout=log, stderr=log)
    try:
        yield Peer(_ready(f"http://127.0.0.1:{port}", process), process.pid)
    finally:
        process.terminate()
        process.wait(10)


def _ready(url: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=5):
            return url
        time.sleep(0.05)
    without_peer("does not start")


def openmetrics(series: Sequence[Series]) -> Iterator[str]:
    for each_series in sorted(series, key=lambda s: s.labels["__name__"]):
        named = _labelled(each_series)
        for when, value in zip(each_series.times.tolist(), each_series.values.tolist(), strict=True):
            yield f"{named} {value} {when:.3f}\n"
    yield "# EOF\n"


def _labelled(series: Series) -> str:
    pairs = ",".join(f'{name}="{value}"' for name, value in series.labels.items() if name != "__name__")
    return f"{series.labels['__name__']}{{{pairs}}}"
