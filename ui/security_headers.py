"""The Streamlit app with the HTTP headers that Streamlit does not send; `ui.launch` starts this file.

It imports the pages' modules before the first viewer comes, and names the scripts that a table needs in a
header for early loading. Because of the content security policy, the browser loads no foreign image, runs no
foreign script and shows the page in no foreign frame, even if text from others were rendered as markup.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui import certificate
from ui.kit import (
    sign_in,
    widgets,  # noqa: F401 - imported here so that the first viewer does not wait for it
)
from ui.proxy_check import ProxyCheck, networks_of
from ui.query import panels  # noqa: F401
from ui.return_path import ReturnPath

INDEX = Path(st.__file__).parent / "static" / "index.html"
SCRIPTS = INDEX.parent / "static" / "js"
#: Scripts of Streamlit that every page needs; without preloading the browser loads them one after the other.
PRELOADED_SCRIPTS = ("BidiComponent", "Multiselect", "TextInput", "remark-emoji")
#: Addresses of the pages.
PAGES = {"/", *(f"/{path.stem}" for path in Path(__file__).with_name("app_pages").glob("*.py"))}
BASE_URL_SCRIPT = (
    "window.__streamlit = {BACKEND_BASE_URL: location.origin + location.pathname.replace(/(%s)\\/?$/, '')}"
)
HEALTH = "/_stcore/health"  # of probes, which may send any Host
REFUSAL = "The host name %r is not allowed. Start the dashboard with --allowed-host NAME to use it.\n"
HSTS = [(b"strict-transport-security", b"max-age=31536000")]
MIN_PRELOAD_BYTES = 10_000  # of a script; the header must stay small for proxies


def with_base_url(index_html: str) -> str:
    """The page with the address of its server: Streamlit's script would first try below a deep link, and get 404."""
    names = "|".join(sorted(name.removeprefix("/") for name in PAGES if name != "/"))
    script = BASE_URL_SCRIPT % names
    return index_html.replace("<head>", f"<head><script>{script}</script>", 1)


def policy(index_html: str) -> str:
    """The content security policy: only own resources, and only the inline scripts of Streamlit's page."""
    inline = re.findall(r"<script>(.*?)</script>", index_html, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in inline]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return "; ".join(
        (
            "default-src 'self'",
            # Streamlit loads the script of `ui.kit.listing` from a blob, which only a script of the page can make.
            f"script-src 'self' blob: 'wasm-unsafe-eval' {allowed}".strip(),
            "style-src 'self' 'unsafe-inline'",  # Streamlit's styles are made in the browser
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )


def headers(index_html: str) -> list[tuple[bytes, bytes]]:
    """The security headers of every answer."""
    return [
        (b"content-security-policy", policy(index_html).encode()),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),  # query ids are not sent to other sites
    ]


def preloads(scripts: Path, index_html: str) -> str:
    """A `Link` header with the larger scripts of PRELOADED_SCRIPTS and their imports; empty for none."""
    roots = [path.name for name in PRELOADED_SCRIPTS for path in scripts.glob(f"{name}.*.js")]
    needed = imported(scripts, roots) - set(re.findall(r"static/js/([\w.$-]+\.js)", index_html))
    large = sorted(name for name in needed if (scripts / name).stat().st_size >= MIN_PRELOAD_BYTES)
    return ", ".join(f"<./static/js/{name}>; rel=modulepreload" for name in large)


def imported(scripts: Path, roots: list[str]) -> set[str]:
    """The names of these scripts and of all scripts that they import."""
    found: set[str] = set()
    while roots:
        name = roots.pop()
        if name not in found and (scripts / name).is_file():
            found.add(name)
            text = (scripts / name).read_text(encoding="utf-8")
            roots += re.findall(r"""(?:from|import)\s*[`"']\./([\w.$-]+\.js)[`"']""", text)
    return found


def is_allowed(host: str, names: Sequence[str]) -> bool:
    """Whether a Host header names one of the hosts that Streamlit's option `server.allowedHosts` lists.

    Streamlit checks the websocket, which carries all content. For pages, this states the reason to people.
    """
    name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    return any(
        pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:]))
        for pattern in names
    )


class SecurityHeaders:
    """ASGI middleware: refuses foreign hosts, adds the headers to every HTTP answer and preloads to the page itself."""

    def __init__(self, app: ASGIApp):
        index = with_base_url(INDEX.read_text(encoding="utf-8"))
        self.app = app
        self.headers = headers(index)
        self.preload = [(b"link", preloads(SCRIPTS, index).encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != HEALTH:
            host = Headers(scope=scope).get("host", "")
            if not is_allowed(host, st.get_option("server.allowedHosts")):
                return await PlainTextResponse(REFUSAL % host[:100], 403)(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in self.headers}
                strict = HSTS if scope["scheme"] == "https" else []
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in names]
                preload = self.preload if _is_page(kept) else []
                message = {**message, "headers": [*kept, *self.headers, *strict, *preload]}
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


class PageWithBase:
    """ASGI middleware: answers the address of a page with the page, which states its base address."""

    def __init__(self, app: ASGIApp):
        index = with_base_url(INDEX.read_text(encoding="utf-8"))
        self.app, self.page = app, HTMLResponse(index, headers={"Cache-Control": "no-cache"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and scope["path"] in PAGES and scope["method"] == "GET"
        await (self.page if is_page else self.app)(scope, receive, send)


def _is_page(pairs: list[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in pairs)


def middleware(environ: Mapping[str, str] = os.environ) -> list[Middleware]:
    """The headers; then, where a proxy logs people in, the check that it is the proxy; then the pages."""
    found = [Middleware(SecurityHeaders)]
    if proxies := environ.get(sign_in.PROXIES):
        names = [environ[name] for name in (sign_in.USER_HEADER, sign_in.GROUPS_HEADER) if environ.get(name)]
        found.append(Middleware(ProxyCheck, networks=networks_of(proxies), headers=names))
    if environ.get(sign_in.AUTH_FILE):
        found.append(Middleware(ReturnPath, pages=PAGES))
    return [*found, Middleware(PageWithBase)]


app = st.App(Path(__file__).with_name("app.py"), middleware=middleware(), lifespan=certificate.renewing)
