"""Every route with every role, denied by default; bound, revoked and foreign tokens."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from controlplane.api.access import ACCESS, METRICS, OPEN
from controlplane.model import Role
from controlplane.runtime.tokens import digest_of, issue, visible_prefix
from controlplane.store import tokens as rows
from tests.acceptance.live import LiveServer, eventually
from tests.acceptance.simulated import TLS, SimulatedAgent, SimulatedQuery

BY_HAND = (("GET", "/docs"), ("GET", "/openapi.json"))  # not in the description of the API
METHODS = {"get", "post", "put", "patch", "delete", "head", "options"}
GUESS = "cp_admin_" + "x" * 43
ANY_ID = str(uuid.UUID(int=7))


def routes_of(app: FastAPI) -> set[tuple[str, str]]:
    """The routes that the application serves, from its OpenAPI document."""
    paths = app.openapi()["paths"]
    return {(m.upper(), path) for path, item in paths.items() for m in item if m in METHODS}


@pytest.fixture(scope="module")
def tokens(server: LiveServer) -> dict[Role, str]:
    return {role: server.token(role) for role in Role}


@pytest.fixture(scope="module")
def anonymous(server: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=10.0, verify=TLS) as client:
        yield client


def call(client: httpx.Client, method: str, path: str, token: str | None) -> httpx.Response:
    for name in ("query_id", "agent", "action_id"):
        path = path.replace("{%s}" % name, ANY_ID)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return client.request(method, path, headers=headers, params={"wait": 0} if "commands" in path else None)


def test_the_table_names_exactly_the_routes_there_are(server: LiveServer) -> None:
    app = server.server.config.loaded_app
    while not isinstance(app, FastAPI):
        app = app.app
    assert routes_of(app) | set(BY_HAND) == set(ACCESS) | OPEN


@pytest.mark.parametrize(("method", "path"), sorted(ACCESS))
def test_a_role_passes_where_the_table_allows_it_and_nowhere_else(
    method: str, path: str, tokens: dict[Role, str], anonymous: httpx.Client
) -> None:
    for role, token in tokens.items():
        status = call(anonymous, method, path, token).status_code
        if (method, path) == METRICS:
            assert status == 200
        elif role in ACCESS[method, path]:
            assert status not in (401, 403), (role, status)
            assert status < 500
        else:
            assert status == 403, (role, status)


@pytest.mark.parametrize(("method", "path"), sorted(set(ACCESS) - {METRICS}))
@pytest.mark.parametrize("token", [None, "nonsense", "cp_admin_", "\x7f", "a" * 4000])
def test_without_a_good_token_nothing_passes(
    method: str, path: str, token: str | None, anonymous: httpx.Client
) -> None:
    answer = call(anonymous, method, path, token)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthorized"
    assert answer.headers["WWW-Authenticate"]


def test_a_guessed_token_does_not_pass(anonymous: httpx.Client) -> None:
    assert call(anonymous, "GET", "/api/v1/queries", GUESS).status_code == 401


@pytest.mark.parametrize(("method", "path"), sorted(OPEN))
def test_liveness_and_readiness_need_no_token(method: str, path: str, anonymous: httpx.Client) -> None:
    assert anonymous.request(method, path).json()["status"] == "ok"


def test_a_route_that_is_missing_in_the_table_is_closed_to_all_roles() -> None:
    from controlplane.api.access import authorize
    from controlplane.errors import Forbidden
    from controlplane.runtime.tokens import TokenRegistry

    secret, token = issue("admin", Role.ADMIN, 0.0)
    book = TokenRegistry(lambda: 1.0)
    book.replace([token])
    request = _request("/forgotten", secret, book)
    with pytest.raises(Forbidden):
        asyncio.run(authorize(request))


def _request(path: str, secret: str, book: Any) -> Any:
    from types import SimpleNamespace

    from starlette.requests import Request

    plane = SimpleNamespace(tokens=book, settings=SimpleNamespace(metrics_are_open=False))
    app = SimpleNamespace(state=SimpleNamespace(plane=plane, unknown_tokens=None))
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "app": app}
    return Request({**scope, "route": SimpleNamespace(path=path)})


def test_metrics_can_be_closed(server: LiveServer, anonymous: httpx.Client) -> None:
    object.__setattr__(server.plane.settings, "metrics_need_token", True)
    try:
        assert anonymous.get("/metrics").status_code == 401
    finally:
        object.__setattr__(server.plane.settings, "metrics_need_token", None)
    assert anonymous.get("/metrics").status_code == 200


def test_basic_authentication_works_for_the_docs_only(server: LiveServer, anonymous: httpx.Client) -> None:
    secret = base64.b64encode(f"me:{server.admin_token}".encode()).decode()
    headers = {"Authorization": f"Basic {secret}"}
    page = anonymous.get("/docs", headers=headers)
    assert page.status_code == 200
    assert "/api/v1/queries/{query_id}/actions" in page.text
    assert "http" not in page.text.replace("httpx", "")  # nothing from another host
    assert anonymous.get("/openapi.json", headers=headers).json()["openapi"].startswith("3.")
    assert anonymous.get("/api/v1/queries", headers=headers).status_code == 401
    assert anonymous.get("/docs").headers["WWW-Authenticate"].startswith("Basic")
    for broken in ("Basic ?", "Basic " + base64.b64encode(b"\xff\xff").decode(), "Basic"):
        assert anonymous.get("/docs", headers={"Authorization": broken}).status_code == 401


def test_whoami_returns_the_name_and_the_role(server: LiveServer, admin: httpx.Client) -> None:
    answer = admin.get("/api/v1/whoami").json()
    assert answer == {"name": "local admin", "role": "admin", "person": None, "may_impersonate": True}


def as_person(client: httpx.Client, name: str, role: str, path: str = "/api/v1/whoami") -> httpx.Response:
    return client.get(path, headers={"Impersonate-User": name, "Impersonate-Role": role})


@pytest.mark.parametrize(
    ("own", "stated", "effective"),
    [
        (Role.ADMIN, "operator", "operator"),
        (Role.OPERATOR, "admin", "operator"),  # never more than the token's own role
        (Role.VIEWER, "admin", "viewer"),
        (Role.OPERATOR, "viewer", "viewer"),
    ],
)
def test_a_token_acts_for_a_person_with_the_lower_role(
    server: LiveServer, own: Role, stated: str, effective: str
) -> None:
    with server.client(server.token(own, may_impersonate=True)) as client:
        answer = as_person(client, "J%C3%B6rg", stated).json()
        assert (answer["person"], answer["role"], answer["name"]) == ("Jörg", effective, f"test {own}")
        silence = {"matchers": ['a="b"'], "duration_seconds": 60, "actor": "ada"}
        headers = {"Impersonate-User": "J%C3%B6rg", "Impersonate-Role": stated}
        made = client.post("/api/v1/silences", json=silence, headers=headers)
        assert (made.status_code == 201) == (effective == "operator")
    if effective == "operator":
        assert made.json()["silence"]["created_by"] == "Jörg"


@pytest.mark.parametrize(
    ("name", "role"), [("", "viewer"), ("ada", "agent"), ("ada", "root"), ("x" * 201, "viewer")]
)
def test_a_person_needs_a_name_and_a_role_of_people(admin: httpx.Client, name: str, role: str) -> None:
    assert as_person(admin, name, role).status_code == 400


def test_a_token_without_the_right_acts_under_its_own_name_only(server: LiveServer) -> None:
    with server.client(server.token(Role.OPERATOR)) as client:
        refused = as_person(client, "ada", "operator")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "may_not_impersonate")
        silence = {"matchers": ['a="b"'], "duration_seconds": 60, "actor": "ada"}
        made = client.post("/api/v1/silences", json=silence).json()["silence"]
        assert made["created_by"] == "test operator"


def test_a_token_made_by_another_process_is_known_at_once(
    server: LiveServer, anonymous: httpx.Client
) -> None:
    secret, token = issue("fresh", Role.VIEWER, server.plane.clock())
    with server.plane.engine.connect().execution_options(writes=True) as conn, conn.begin():
        rows.insert(conn, **token.columns())
    assert call(anonymous, "GET", "/api/v1/whoami", secret).json()["name"] == "fresh"


def test_a_revoked_token_is_dropped_and_a_poll_held_with_it_gets_nothing(
    server: LiveServer, agent: SimulatedAgent, admin: httpx.Client
) -> None:
    secret = server.token(Role.AGENT)
    query = SimulatedQuery("watched")
    agent.start(query)
    bearer = {"Authorization": f"Bearer {secret}"}
    seen: list[httpx.Response] = []

    async def held() -> None:
        path = f"{server.url}/api/v1/agents/{agent.agent}/commands"
        async with httpx.AsyncClient(headers=bearer, timeout=20, verify=TLS) as client:
            poll = asyncio.create_task(client.get(path, params={"wait": 10}))
            await asyncio.sleep(0.3)
            token = server.plane.tokens.find(secret)
            assert token is not None
            server.plane.writer.write(lambda conn: rows.revoke(conn, token.id, server.plane.clock()))
            server.plane.stored_tokens.reload()
            await asyncio.to_thread(
                admin.post, f"/api/v1/queries/{query.query_id}/actions", json={"action": "stop"}
            )
            seen.append(await poll)

    asyncio.run(held())
    assert seen[0].status_code == 401
    assert [command["action"] for command in agent.poll(2.0)] == ["stop"]


def test_a_token_bound_to_an_app_speaks_and_polls_for_that_app_only(
    server: LiveServer, admin: httpx.Client
) -> None:
    bound = server.token(Role.AGENT, app="orders")
    mine = SimulatedAgent(server.url, bound, app="orders")
    other = SimulatedAgent(server.url, bound, app="billing")
    assert mine.begin()["stored"] == 1
    refused = other.http.post("/api/v1/events", content=other.line("heartbeat", {}))
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert "bound" in refused.json()["error"]["message"]
    honest = server.agent(app="billing")
    honest.begin()
    query = SimulatedQuery("theirs")
    honest.start(query)
    stolen = mine.http.get(f"/api/v1/agents/{honest.agent}/commands", params={"wait": 0})
    assert (stolen.status_code, stolen.json()["error"]["code"]) == (403, "forbidden")
    action = admin.post(f"/api/v1/queries/{query.query_id}/actions", json={"action": "stop"}).json()["action"]
    forged = mine.http.post(f"/api/v1/commands/{action['id']}/result", json={"state": "succeeded"})
    assert forged.status_code == 403
    assert eventually(lambda: honest.poll(1.0))
    for driver in (mine, other, honest):
        driver.close()


def test_an_admin_lists_the_tokens_without_secret_or_digest(
    server: LiveServer, admin: httpx.Client, tokens: dict[Role, str]
) -> None:
    answer = admin.get("/api/v1/tokens")
    listed = {token["prefix"]: token for token in answer.json()["tokens"]}
    for role, secret in tokens.items():
        shown = listed[visible_prefix(secret)]
        assert (shown["role"], shown["revoked_at"]) == (role.value, None)
        assert secret not in answer.text
        assert digest_of(secret) not in answer.text
