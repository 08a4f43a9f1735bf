"""The image's health check asks what the container serves, whatever its command."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path

import pytest

from controlplane.runtime.container_health import addresses, answers, command_lines
from ui.launch import command

PYTHON = "/opt/controlplane/bin/python"
PROGRAM = "/opt/controlplane/bin/controlplane"
DASHBOARD = command(port=9501, host="0.0.0.0")


@pytest.mark.parametrize(
    ("arguments", "environ", "asked"),
    [
        ([PYTHON, PROGRAM, "serve", "--host", "0.0.0.0"], {}, {"http://127.0.0.1:8420/healthz"}),
        ([PYTHON, PROGRAM, "up", "--port=9000", "--host=::"], {}, {"http://[::1]:9000/healthz"}),
        ([PYTHON, PROGRAM, "demo"], {"CONTROLPLANE_PORT": "9100"}, {"http://127.0.0.1:9100/healthz"}),
        ([PYTHON, "-m", "controlplane", "serve"], {}, {"http://127.0.0.1:8420/healthz"}),
        (DASHBOARD, {}, {"http://127.0.0.1:9501/_stcore/health"}),
        ([PYTHON, PROGRAM, "history", "rollup", "--server", "http://server:8420"], {}, set()),
        (["sh", "-c", "controlplane serve"], {}, set()),
    ],
)
def test_each_command_is_asked_where_it_listens(
    arguments: list[str], environ: dict[str, str], asked: set[str]
) -> None:
    assert addresses([["/sbin/docker-init", "--"], arguments], environ) == asked


def test_server_and_dashboard_of_one_container_are_both_asked() -> None:
    commands = [[PYTHON, PROGRAM, "up", "--host", "0.0.0.0"], DASHBOARD]
    assert len(addresses(commands, {})) == 2


def test_an_answer_is_a_200() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            assert answers(f"{url}/healthz")
            assert not answers(f"{url}/readyz")
        finally:
            server.shutdown()
    assert not answers(f"{url}/healthz")


def test_command_lines_come_from_proc(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"python\0-m\0controlplane\0")
    (tmp_path / "8").mkdir()
    assert list(command_lines(tmp_path)) == [["python", "-m", "controlplane"]]
