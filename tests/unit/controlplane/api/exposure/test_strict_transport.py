"""The header that keeps browsers on https."""

import asyncio
from typing import Any

import pytest

from controlplane.api.exposure.strict_transport import StrictTransport


@pytest.mark.parametrize(("scheme", "strict"), [("https", True), ("http", False)])
def test_only_answers_over_tls_carry_the_header(scheme: str, strict: bool) -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(StrictTransport(app)({"type": "http", "scheme": scheme}, None, send))  # type: ignore[arg-type]
    assert bool(sent[0]["headers"]) == strict
