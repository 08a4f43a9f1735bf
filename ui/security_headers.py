"""The Streamlit app with the HTTP headers that Streamlit does not send; `ui.launch` starts this file.

It imports the pages' modules before the first viewer comes, and names the scripts that a table needs in a
header for early loading. Because of the content security policy, the browser loads no foreign image, runs no
foreign script and shows the page in no foreign frame, even if text from others were rendered as markup.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.kit import widgets  # noqa: F401 - imported here so that the first viewer does not wait for it
from ui.query import panels  # noqa: F401

INDEX = Path(st.__file__).parent / "static" / "index.html"
SCRIPTS = INDEX.parent / "static" / "js"
#: Scripts of Streamlit that every page needs; without preloading the browser loads them one after the other.
PRELOADED_SCRIPTS = ("DataFrame", "Multiselect", "TextInput", "remark-emoji")
MIN_PRELOAD_BYTES = 10_000  # of a script; the header must stay small for proxies


def policy(index_html: str) -> str:
    """The content security policy: only own resources, and only the inline scripts of Streamlit's page."""
    inline = re.findall(r"<script>(.*?)</script>", index_html, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in inline]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' 'wasm-unsafe-eval' {allowed}".strip(),
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


class SecurityHeaders:
    """ASGI middleware: adds the headers to every HTTP answer, and the preload header to the page itself."""

    def __init__(self, app: ASGIApp):
        index = INDEX.read_text(encoding="utf-8")
        self.app = app
        self.headers = headers(index)
        self.preload = [(b"link", preloads(SCRIPTS, index).encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in self.headers}
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in names]
                preload = self.preload if _is_page(kept) else []
                message = {**message, "headers": [*kept, *self.headers, *preload]}
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


def _is_page(pairs: list[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in pairs)


app = st.App(Path(__file__).with_name("app.py"), middleware=[Middleware(SecurityHeaders)])
