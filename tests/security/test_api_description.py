"""Every route as every role, with hostile parameters: no 5xx, and nothing that the API's own description does not say."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controlplane.api.access import ACCESS, OPEN
from controlplane.model import Role
from tests.acceptance.live import LiveServer
from tests.acceptance.simulated import TLS, SimulatedQuery

HOSTILE = (
    *(
        "",
        "x",
        "-1",
        "1e400",
        "NaN",
        "null",
        "\u0000",
        "\U0001f600",
        "x" * 5000,
        "../../etc/passwd",
        "%2e%2e",
        "' OR 1=1",
    ),
    *(
        "<script>",
        "{",
        "(",
        "up[1y:1ms]",
        '{a=~"(a+)+$"}',
        "0",
        "1795152000",
        "2026-11-22T00:00:00Z",
        str(uuid.uuid4()),
    ),
)
BODIES = (
    b"",
    b"null",
    b"[]",
    b"{",
    b'"x"',
    b"\xff",
    b"[" * 5000,
    b'{"action":"stop","reason":5}',
    b'{"matchers":[{}]}',
)
SEED = 17


@pytest.fixture(scope="module")
def document(server: LiveServer) -> dict[str, Any]:
    with server.client() as client:
        found: dict[str, Any] = client.get("/openapi.json").json()
    return found


@pytest.fixture(scope="module")
def clients(server: LiveServer) -> Iterator[dict[str, httpx.Client]]:
    driver = server.agent()
    driver.begin()
    driver.start(SimulatedQuery("orders"))
    tokens = {role.value: server.token(role) for role in Role} | {"nobody": ""}
    opened = {
        role: httpx.Client(
            base_url=server.url,
            timeout=30,
            verify=TLS,
            headers={"Authorization": f"Bearer {token}"} if token else {},
        )
        for role, token in tokens.items()
    }
    yield opened
    for client in opened.values():
        client.close()
    driver.close()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_every_reference_leads_to_a_schema(document: dict[str, Any]) -> None:
    for reference in set(references(document)):
        target: Any = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        assert isinstance(target, dict)


@pytest.mark.long
def test_no_route_breaks_or_answers_what_its_description_does_not_say(
    document: dict[str, Any], clients: dict[str, httpx.Client]
) -> None:
    choose, problems = random.Random(SEED), []
    for method, path, operation in operations(document):
        for role, client in clients.items():
            for _ in range(3):
                answer = hostile_request(choose, client, method, path, operation)
                problem = deviation(document, operation, answer) or not_allowed(method, path, role, answer)
                if problem:
                    problems.append(f"{role} {method} {answer.request.url} {answer.status_code}: {problem}")
    assert not problems, "\n".join(problems[:20])


def hostile_request(
    choose: random.Random, client: httpx.Client, method: str, path: str, operation: dict[str, Any]
) -> httpx.Response:
    query: list[tuple[str, str]] = []
    for parameter in operation.get("parameters", ()):
        value = choose.choice(HOSTILE)
        if parameter["in"] == "path":
            value = value.replace("/", "")  # with a slash it is another path
            quoted = httpx.URL("", params={"v": value or "x"}).query.decode()[2:].replace("+", "%20")
            path = path.replace("{%s}" % parameter["name"], quoted)
        elif choose.random() < 0.7:
            query.append((parameter["name"], "0" if parameter["name"] == "wait" else value))
    if "commands" in path:
        query.append(("wait", "0"))
    content = choose.choice(BODIES) if method in ("POST", "PUT") else None
    return client.request(method, path, params=query, content=content)


def deviation(document: dict[str, Any], operation: dict[str, Any], answer: httpx.Response) -> str | None:
    from jsonschema import Draft202012Validator  # builds grammars for a second: not while tests are collected

    if answer.status_code >= 500 and answer.status_code != 503:
        return "a server error"
    described = operation["responses"].get(str(answer.status_code))
    if described is None:
        return "a status that is not described"
    content = described.get("content", {}).get("application/json")
    if content is None or "json" not in answer.headers.get("content-type", ""):
        return None
    schema = {**content["schema"], "components": document["components"]}
    error = next(Draft202012Validator(schema).iter_errors(answer.json()), None)
    return error and f"{error.message[:200]} at {list(error.path)}"


def not_allowed(method: str, path: str, role: str, answer: httpx.Response) -> str | None:
    """By the access table; `/metrics` is open on loopback."""
    if (method, path) in OPEN or path == "/metrics":
        return None
    if role == "nobody":
        return None if answer.status_code == 401 else "answered without a token"
    allowed = Role(role) in ACCESS[method, path]
    return None if allowed == (answer.status_code != 403) else "not what the access table allows"
