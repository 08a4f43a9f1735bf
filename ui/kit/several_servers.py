"""Client of several servers side by side: lists are merged, everything else goes to the server that has the object.

Each element of a merged list has the field `server`; `left_out` of the answer names the servers that gave none. A new
silence is created on every server. `CONTROLPLANE_URL` names the servers: `eu=http://a:8420;us=http://b:8420`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from ui.kit import fleet_page
from ui.kit.answers import ClientError, ServerNotFound, ServerRefused
from ui.kit.client import ServerClient
from ui.kit.environment import server_url, token
from ui.kit.fleet_page import EVERYTHING, FleetPage
from ui.kit.statuses import STATUSES

_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)=(https?://\S+)")
#: Paths whose answers are merged.
_LISTS = re.compile(
    r"/api/v1/(queries|apps|agents|alerts|alerts/history|actions|silences|checkpoints|notifications|rules|incidents)"
    r"|/prometheus/api/v1/(query|query_range)"
)
_OBJECT = re.compile(r"/api/v1/(queries|apps|alerts|actions|checkpoints|silences|incidents)/([^/?]+)")
_RANKS = {status: rank for rank, status in enumerate(STATUSES)}


def named_servers(text: str) -> dict[str, str]:
    """URL by name; empty where the text names no servers."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    found = [match for part in parts if (match := _NAMED.fullmatch(part))]
    return {match[1]: match[2].rstrip("/") for match in found} if len(found) == len(parts) else {}


def open_client(
    environ: Mapping[str, str] = os.environ, person_headers: Callable[[], Mapping[str, str]] = dict
) -> ServerClient:
    """The client of the server, or of the servers, that the environment names."""
    servers = named_servers(environ.get("CONTROLPLANE_URL", ""))
    make = partial(ServerClient, person_headers=person_headers)
    return SideBySideClient(servers, make) if servers else make(server_url(environ))


def _token_of(server: str) -> str | None:
    own = os.environ.get(f"CONTROLPLANE_TOKEN_{server.upper().replace('-', '_')}", "").strip()
    return own or token()


class SideBySideClient(ServerClient):
    """`servers`: URL by name. Each has the token `CONTROLPLANE_TOKEN_NAME`, else that of all."""

    def __init__(self, servers: Mapping[str, str], make: Callable[..., ServerClient] = ServerClient):
        super().__init__(next(iter(servers.values())))
        self.server = ", ".join(servers.values())
        self._clients = {name: make(url, partial(_token_of, name)) for name, url in servers.items()}
        self._holders: dict[str, ServerClient] = {}

    def fleet(self, page: FleetPage = EVERYTHING) -> dict[str, Any]:
        """A page of all servers' queries: each gives its rows up to the end of the page."""
        whole = replace(page, offset=0, limit=page.offset + page.limit, servers=())
        found = self._merged(lambda client: client.fleet(whole), page.servers)
        return {**found, "queries": fleet_page.merged(found.get("queries", []), page)}

    def fleet_choices(self) -> dict[str, Any]:
        found = self._merged(lambda client: client.fleet_choices())
        choices = found.get("choices") or {}
        names = {name: sorted({str(item) for item in items}) for name, items in choices.items()}
        return {"choices": {**names, "servers": list(self._clients)}}

    def servers(self) -> dict[str, Any]:
        return self._merged(lambda client: client.servers())

    def covered(self, matchers: Sequence[str]) -> dict[str, Any]:
        return self._merged(lambda client: client.covered(matchers))

    def silence(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answers = [client.silence(body) for client in self._clients.values()]
        return answers[0]

    def _send(self, method: str, path: str, **rest: Any) -> dict[str, Any]:
        if method == "GET" and _LISTS.fullmatch(path):
            return self._merged(lambda client: client._send(method, path, **rest))
        if found := _OBJECT.match(path):
            return self._holder(found[1], found[2])._send(method, path, **rest)
        return next(iter(self._clients.values()))._send(method, path, **rest)

    def _merged(
        self, ask: Callable[[ServerClient], dict[str, Any]], servers: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The merged answers of these servers, of all by default."""
        answers: dict[str, dict[str, Any]] = {}
        errors: dict[str, ClientError] = {}
        with ThreadPoolExecutor(8) as pool:
            asked = {
                name: pool.submit(ask, client)
                for name, client in self._clients.items()
                if not servers or name in servers
            }
        for name, future in asked.items():
            try:
                answers[name] = future.result()
            except ClientError as error:
                errors[name] = error
        if not answers:
            raise next(iter(errors.values()))
        # A server that does not know the query that a filter names has nothing to add.
        left_out = {n: str(e) for n, e in errors.items() if not isinstance(e, ServerNotFound | ServerRefused)}
        return {**merged(answers), **({"left_out": left_out} if left_out else {})}

    def _holder(self, kind: str, name: str) -> ServerClient:
        """The server that has this object. Raises the last server's error where none has it."""
        if name in self._holders:
            return self._holders[name]
        problem: ClientError = ServerNotFound(f"No server has {name}.")
        for client in self._clients.values():
            try:
                if _has(client, kind, name):
                    self._holders[name] = client
                    return client
            except ClientError as error:
                problem = error
        raise problem


def _has(client: ServerClient, kind: str, name: str) -> bool:
    if kind == "silences":
        return any(item.get("id") == name for item in client.silences().get("silences", []))
    client._send("GET", f"/api/v1/{'queries' if kind == 'checkpoints' else kind}/{name}")
    return True


def merged(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One answer of those of several servers: lists joined, counts added, else the first value that is known."""
    found: dict[str, Any] = {}
    for server, answer in answers.items():
        for key, value in answer.items():
            found[key] = _joined(found.get(key), _marked(value, server))
    if isinstance(found.get("queries"), list):
        found["queries"].sort(key=lambda query: _RANKS.get(query.get("status"), len(_RANKS)))
    return found


def _marked(value: Any, server: str) -> Any:
    if not isinstance(value, list):
        return value
    return [{**item, "server": server} if isinstance(item, dict) else item for item in value]


def _joined(before: Any, value: Any) -> Any:
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    if isinstance(before, dict) and isinstance(value, dict):
        return {key: _joined(before.get(key), value.get(key)) for key in {**before, **value}}
    if isinstance(before, int) and isinstance(value, int):
        return before + value
    return value if before is None else before
