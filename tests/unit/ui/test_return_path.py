"""Where the browser goes after a log-in: only to a page of the dashboard."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route
from starlette.types import Message

from ui.return_path import COOKIE, ReturnPath

PAGES = {"/", "/query"}


def callback(request: object) -> RedirectResponse:
    answer = RedirectResponse("/", 302)
    answer.set_cookie("_streamlit_user", "signed")
    return answer


APP = ReturnPath(
    Starlette(
        routes=[
            Route("/query", lambda request: PlainTextResponse("page")),
            Route("/oauth2callback", callback),
            Route("/other", lambda request: PlainTextResponse("other")),
        ]
    ),
    PAGES,
)


def answer(path: str, query: str = "", cookie: str = "", scheme: str = "http") -> dict[str, list[str]]:
    """The headers of an answer."""
    found: dict[str, list[str]] = {}
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "scheme": scheme}
    scope |= {"headers": [(b"cookie", cookie.encode())], "http_version": "1.1"}

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        for name, value in message.get("headers", []):
            found.setdefault(name.decode(), []).append(value.decode())

    asyncio.run(APP(scope, receive, send))
    return found


def test_a_log_in_returns_to_the_page_that_was_opened() -> None:
    (noted,) = answer("/query", "query_id=a%26b&tab=1", scheme="https")["set-cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Secure"} <= set(noted.split("; "))
    found = answer("/oauth2callback", cookie=noted.partition(";")[0])
    assert found["location"] == ["/query?query_id=a%26b&tab=1"]
    assert any(value.startswith(f"{COOKIE}=;") for value in found["set-cookie"])  # once


@pytest.mark.parametrize(
    "target",
    [
        "",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example/query",
        "/other",
        "/query\r\nX: y",
        "/q%0d",
        "query",
    ],
)
def test_no_other_target_is_returned_to(target: str) -> None:
    found = answer("/oauth2callback", cookie=f"{COOKIE}={quote(target, safe='')}")
    assert found["location"] == ["/"]


def test_nothing_is_noted_of_other_paths_and_of_addresses_that_are_too_long() -> None:
    assert "set-cookie" not in answer("/other")
    assert "set-cookie" not in answer("/query", "q" * 2_000)
