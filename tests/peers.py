"""Debian's Prometheus, Alertmanager and VictoriaMetrics as processes, for tests beside the real ones."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.live import eventually
from tests.ports import free_port
from tests.stores import skip_or_fail


@contextmanager
def _process(command: Sequence[str], folder: Path, url: str, ready: str) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        assert eventually(lambda: _answers(url + ready)), (folder / "log").read_text()[-4000:]
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2.0).status_code == 200
    except httpx.HTTPError:
        return False


def program(name: str, package: str) -> str:
    """The path of a program; the test is skipped without it, or fails where everything is required."""
    return shutil.which(name) or skip_or_fail(name, f"apt-get install -y {package}")


@contextmanager
def alertmanager(folder: Path, prefix: str = "") -> Iterator[str]:
    """The URL of an Alertmanager without receivers."""
    found = program("prometheus-alertmanager", "prometheus-alertmanager")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    address = f"127.0.0.1:{free_port()}"
    options = (
        "--config.file=am.yml",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
        f"--web.route-prefix=/{prefix}",
    )
    with _process((found, *options), folder, f"http://{address}{prefix and '/'}{prefix}", "/-/ready") as url:
        yield url


@contextmanager
def prometheus(folder: Path, config: dict[str, Any], *options: str, port: int = 0) -> Iterator[str]:
    """The URL of a Prometheus with this configuration."""
    found = program("prometheus", "prometheus")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(json.dumps(config))
    address = f"127.0.0.1:{port or free_port()}"
    given = (
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        *options,
    )
    with _process((found, *given), folder, f"http://{address}", "/-/ready") as url:
        yield url


@contextmanager
def victoria_metrics(folder: Path, *options: str) -> Iterator[str]:
    """The URL of a single-node VictoriaMetrics."""
    found = program("victoria-metrics", "victoria-metrics")
    address = f"127.0.0.1:{free_port()}"
    given = (f"-storageDataPath={folder / 'data'}", f"-httpListenAddr={address}", "-retentionPeriod=12")
    with _process((found, *given, *options), folder, f"http://{address}", "/health") as url:
        yield url
