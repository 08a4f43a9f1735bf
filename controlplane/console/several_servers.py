"""Client of several servers side by side: lists are merged, everything else goes to the server that has the object.

Each element of a merged list has the field `server`. A server that does not answer is reported on standard error while
another one answers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from controlplane.console.client import TIMEOUT_SECONDS, ApiClient, token_of
from controlplane.console.errors import CallFailed, RequestRefused, UsageProblem
from controlplane.model import QueryStatus
from controlplane.server_urls import named_servers
from controlplane.settings import Settings

#: Paths whose answers are merged.
LISTS = frozenset(
    f"/api/v1/{name}"
    for name in "queries apps alerts alerts/history actions silences checkpoints notifications rules receivers agents incidents".split()
)
_OBJECT = re.compile(r"/api/v1/(queries|apps|alerts|actions|checkpoints|silences|incidents)/([^/?]+)")
#: Statuses of a server that does not know what a filter of a list names.
_UNKNOWN = (404, 422)
_RANKS = {status.value: rank for rank, status in enumerate(QueryStatus)}


class SeveralServers(ApiClient):
    """`servers`: URL by name. Each has the token `CONTROLPLANE_TOKEN_NAME`, else `token`."""

    def __init__(
        self,
        servers: Mapping[str, str],
        token: str | None,
        timeout: float = TIMEOUT_SECONDS,
        ca_file: Path | None = None,
    ):
        super().__init__(next(iter(servers.values())), token, timeout, ca_file)
        self.url = ", ".join(f"{name} ({url})" for name, url in servers.items())
        self._clients = {
            name: ApiClient(url, os.environ.get(token_variable(name)) or token, timeout, ca_file)
            for name, url in servers.items()
        }

    def _call(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        bare = path.partition("?")[0]
        if method == "GET" and bare in LISTS:
            return self._merged(path)
        found = _OBJECT.match(bare)
        if found is not None:
            return self._holder(found[1], found[2])._call(method, path, body, headers)
        if method != "GET":
            raise UsageProblem("this command changes one server; give one --server")
        return next(iter(self._clients.values()))._call(method, path, body, headers)

    def _merged(self, path: str) -> Any:
        with ThreadPoolExecutor(8) as pool:
            asked = {name: pool.submit(client.get, path) for name, client in self._clients.items()}
        answers, errors = {}, {}
        for name, future in asked.items():
            try:
                answers[name] = future.result()
            except CallFailed as error:
                errors[name] = error
        if not answers:
            raise next(iter(errors.values()))
        for name, problem in errors.items():
            if not (isinstance(problem, RequestRefused) and problem.status in _UNKNOWN):
                click.echo(f"{name} is left out: {problem}", err=True)
        return merged(answers)

    def _holder(self, kind: str, name: str) -> ApiClient:
        """The server that has this object. Raises the last server's error where none has it."""
        problem: CallFailed | None = None
        for client in self._clients.values():
            try:
                if _has(client, kind, name):
                    return client
            except CallFailed as error:
                problem = error
        raise problem or UsageProblem(f"no server has {name}")


def open_client(settings: Settings) -> ApiClient:
    """A client for the configured server or servers and token."""
    if servers := named_servers(settings.server_url):
        return SeveralServers(servers, token_of(settings), ca_file=settings.ca_file)
    return ApiClient(settings.server_url, token_of(settings), ca_file=settings.ca_file)


def _has(client: ApiClient, kind: str, name: str) -> bool:
    if kind == "silences":
        return any(item["id"] == name for item in client.get("/api/v1/silences")["silences"])
    client.get(f"/api/v1/{'queries' if kind == 'checkpoints' else kind}/{name}")
    return True


def token_variable(server: str) -> str:
    """The environment variable of a server's own token."""
    return f"CONTROLPLANE_TOKEN_{server.upper().replace('-', '_')}"


def merged(answers: Mapping[str, Any]) -> Any:
    """One answer of those of several servers: lists joined, counts added, else the first value that is known."""
    found: dict[str, Any] = {}
    for server, answer in answers.items():
        for key, value in answer.items():
            found[key] = _joined(found.get(key), _marked(value, server))
    for key in ("queries", "alerts"):
        if isinstance(found.get(key), list):
            found[key].sort(key=_place)
    return found


def _marked(value: Any, server: str) -> Any:
    if not isinstance(value, list):
        return value
    return [{"server": server, **item} if isinstance(item, dict) else item for item in value]


def _joined(before: Any, value: Any) -> Any:
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    if isinstance(before, dict) and isinstance(value, dict):
        return {key: _joined(before.get(key), value.get(key)) for key in {**before, **value}}
    if isinstance(before, int) and isinstance(value, int):
        return before + value
    return value if before is None else before


def _place(item: Mapping[str, Any]) -> int:
    """Worst first; the servers' own order decides between equals."""
    if "status" in item:
        return _RANKS.get(str(item["status"]), len(_RANKS))
    return ("firing", "pending", "resolved").index(item["state"])
