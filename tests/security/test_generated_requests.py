"""Requests that schemathesis generates from the API's own description, as each role: no 5xx, nothing undeclared."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.model import Role
from tests.acceptance.live import LiveServer
from tests.acceptance.simulated import SimulatedQuery

EXAMPLES = {"long": 1, "soak": 200}  # of each operation and role
#: The server refuses work above its limits; a request may get this answer.
BUSY = (503,)


@pytest.fixture(scope="module")
def schema(server: LiveServer) -> Any:
    import schemathesis

    @schemathesis.serializer("application/x-ndjson")
    def lines(context: Any, value: Any) -> bytes:
        return value if isinstance(value, bytes) else json.dumps(value).encode()

    driver = server.agent()
    driver.begin()
    driver.start(SimulatedQuery("orders"))
    driver.close()
    with server.client() as client:
        document = client.get("/openapi.json").json()
    return schemathesis.openapi.from_dict(document)


@pytest.fixture(scope="module")
def secrets(server: LiveServer) -> dict[str, str]:
    return {role.value: server.token(role) for role in Role} | {"nobody": ""}


def operations(schema: Any) -> Iterator[Any]:
    for found in schema.get_all_operations():
        yield found.ok()


@pytest.mark.long
@pytest.mark.parametrize("role", [*Role, "nobody"])
def test_generated_requests(schema: Any, server: LiveServer, secrets: dict[str, str], role: str) -> None:
    check_all(schema, server, secrets[role], EXAMPLES["long"])


@pytest.mark.soak
@pytest.mark.parametrize("role", [*Role, "nobody"])
def test_many_generated_requests(schema: Any, server: LiveServer, secrets: dict[str, str], role: str) -> None:
    check_all(schema, server, secrets[role], EXAMPLES["soak"])


def check_all(schema: Any, server: LiveServer, token: str, examples: int) -> None:
    import hypothesis

    problems: list[str] = []
    for operation in operations(schema):
        quiet = list(hypothesis.HealthCheck)
        limits = hypothesis.settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=quiet,
        )

        @limits
        @hypothesis.given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            problems.extend(problem_of(case, server, token))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ask()
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(sorted(set(problems))[:30])


def problem_of(case: Any, server: LiveServer, token: str) -> Iterator[str]:
    """What is wrong with the answer, in one line."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.failures import FailureGroup
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = (
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    )
    if case.operation.path.endswith("/commands"):
        case.query = {**(case.query or {}), "wait": "0"}  # not 25 s
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = case.call(base_url=server.url, headers=headers, timeout=30)
    if answer.status_code in BUSY:
        return
    try:
        case.validate_response(answer, checks=list(checks))
    except FailureGroup as found:
        for failure in found.exceptions:
            title = str(failure).splitlines()[0]
            yield f"{case.operation.label}: {answer.status_code} {title}"
