"""Health check of the image: ask every server and dashboard that runs in this container.

The image runs this module; exit code 1 if one does not answer. A container that serves nothing, such as a history job,
is healthy while it runs. Linux only: the processes are read from /proc.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.settings import Settings, connect_host, load

TIMEOUT_SECONDS = 4.0
#: Commands that listen on `--port`. Their dashboard, if any, is a Streamlit process of its own.
SERVING = ("serve", "up", "demo")


def addresses(commands: Iterable[Sequence[str]], environ: Mapping[str, str]) -> set[str]:
    """URLs to ask, given the command lines of all processes."""
    settings = load(environ)
    return {url for command in commands for url in _served(command, settings)}


def _served(command: Sequence[str], settings: Settings) -> Iterator[str]:
    names = [os.path.basename(argument) for argument in command]
    if any(name == "controlplane" and follower in SERVING for name, follower in pairwise(names)):
        host = _option(command, "--host") or settings.host
        port = _option(command, "--port") or settings.port
        yield f"{_scheme(command, '--tls-cert', settings)}://{connect_host(host)}:{port}/healthz"
    elif "streamlit" in names and "run" in names:
        host = _option(command, "--server.address") or settings.host
        port = _option(command, "--server.port") or settings.ui_port
        yield f"{_scheme(command, '--server.sslCertFile', settings)}://{connect_host(host)}:{port}/_stcore/health"


def _scheme(command: Sequence[str], option: str, settings: Settings) -> str:
    return "https" if _option(command, option) or settings.tls_cert else "http"


def _option(command: Sequence[str], name: str) -> str | None:
    """The value of `--name value` or `--name=value`."""
    for argument, following in zip(command, (*command[1:], None), strict=True):
        if argument == name:
            return following
        if argument.startswith(name + "="):
            return argument.partition("=")[2]
    return None


def answers(url: str) -> bool:
    """Whether a GET of the URL returns 200 in time; proxies of the environment are not used.

    The certificate is not checked: it is that of another name, and nothing secret is sent.
    """
    parts = urlsplit(url)
    place, timeout = (parts.hostname or "", parts.port), TIMEOUT_SECONDS
    if parts.scheme == "https":
        tls = ssl._create_unverified_context()
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            *place, timeout=timeout, context=tls
        )
    else:
        connection = http.client.HTTPConnection(*place, timeout=timeout)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def command_lines(proc: Path = Path("/proc")) -> Iterator[list[str]]:
    """The command line of every process of this container."""
    for file in proc.glob("[0-9]*/cmdline"):
        try:
            text = file.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue  # the process has ended
        yield text.rstrip("\0").split("\0")


def main() -> int:
    """Print the addresses that do not answer; exit code 1 if there is one."""
    silent = [url for url in sorted(addresses(command_lines(), os.environ)) if not answers(url)]
    for url in silent:
        print(f"no answer from {url}", file=sys.stderr)
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
