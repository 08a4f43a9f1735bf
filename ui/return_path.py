"""ASGI middleware: after an OpenID Connect log-in the browser returns to the page that the person had opened.

Streamlit redirects to the first page. `ui.security_headers` adds this where `CONTROLPLANE_AUTH_FILE` is set: the answer to a
page notes its address in a cookie, and the redirect after the log-in leads there.
"""

from __future__ import annotations

from collections.abc import Container
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, unquote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "controlplane_return_to"
#: Of the cookie: time for a log-in.
SECONDS = 600
MAX_LENGTH = 2_000
CALLBACK = "/oauth2callback"
LOG_IN_COOKIE = "_streamlit_user"


class ReturnPath:
    """Notes the address of the page that was opened last, and returns to it after a log-in.

    `pages`: paths of the dashboard; nothing else is returned to.
    """

    def __init__(self, app: ASGIApp, pages: Container[str]):
        self.app, self.pages = app, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            return await self.app(scope, receive, send)
        cookies = _cookies(Headers(scope=scope).get("cookie", ""))

        async def with_return(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(raw=list(message["headers"]))
                self._change(scope, found, message["status"], cookies)
                message = {**message, "headers": found.raw}
            await send(message)

        await self.app(scope, receive, with_return)

    def _change(self, scope: Scope, found: MutableHeaders, status: int, cookies: dict[str, str]) -> None:
        secure = "; Secure" if scope["scheme"] == "https" else ""
        if scope["path"] in self.pages:
            query = scope["query_string"].decode("latin-1")
            target = quote(scope["path"] + (f"?{query}" if query else ""), safe="")
            if len(target) <= MAX_LENGTH:
                found.append("set-cookie", _cookie(target, SECONDS) + secure)
        elif scope["path"] == CALLBACK and status == 302 and self._is_log_in(found):
            target = unquote(cookies.get(COOKIE, ""))
            if (
                urlsplit(target).path in self.pages
                and target.startswith("/")
                and target[1:2] not in ("/", "\\")
            ):
                found["location"] = quote(target, safe="/?=&%+,:~-._")
            found.append("set-cookie", _cookie("", 0) + secure)

    def _is_log_in(self, found: MutableHeaders) -> bool:
        """Whether the answer logs somebody in, and leads to the first page."""
        sets = any(value.startswith(LOG_IN_COOKIE) for value in found.getlist("set-cookie"))
        return sets and found.get("location") == "/"


def _cookie(value: str, seconds: int) -> str:
    return f"{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax"


def _cookies(header: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}
