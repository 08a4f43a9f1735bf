"""The Streamlit app with the HTTP headers it does not send itself. `ui.launch` starts this file.

What the pages are made of is imported here, before the first viewer comes, and the browser is told early which
of Streamlit's scripts a table needs. A content security policy means that even if a text from outside were
rendered as markup, the browser would load no foreign image, run no foreign script and show the page in no
foreign frame.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.kit import widgets  # noqa: F401 - for their time to load, which the first viewer need not wait for
from ui.query import panels  # noqa: F401

INDEX = Path(st.__file__).parent / "static" / "index.html"
SCRIPTS = INDEX.parent / "static" / "js"
#: Streamlit's scripts that every page needs, and would otherwise be asked for one after the other.
PRELOADED_SCRIPTS = ("DataFrame", "Multiselect", "TextInput", "remark-emoji")
MIN_PRELOAD_BYTES = 10_000  # bytes; the header must stay small for the proxies between


def policy(index_html: str) -> str:
    """Everything from here and nothing else; inline scripts only those that Streamlit's own page carries."""
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
    return [
        (b"content-security-policy", policy(index_html).encode()),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),  # query ids stay in the house
    ]


def preloads(scripts: Path, index_html: str) -> str:
    """A `Link` header that names the larger scripts of `PRELOADED_SCRIPTS` and of what they import; empty for none."""
    roots = [path.name for name in PRELOADED_SCRIPTS for path in scripts.glob(f"{name}.*.js")]
    needed = imported(scripts, roots) - set(re.findall(r"static/js/([\w.$-]+\.js)", index_html))
    large = sorted(name for name in needed if (scripts / name).stat().st_size >= MIN_PRELOAD_BYTES)
    return ", ".join(f"<./static/js/{name}>; rel=modulepreload" for name in large)


def imported(scripts: Path, roots: list[str]) -> set[str]:
    """The names of these scripts and of all that they import."""
    seen: set[str] = set()
    while roots:
        name = roots.pop()
        if name not in seen and (scripts / name).is_file():
            seen.add(name)
            text = (scripts / name).read_text(encoding="utf-8")
            roots += re.findall(r"""(?:from|import)\s*[`"']\./([\w.$-]+\.js)[`"']""", text)
    return seen


class SecurityHeaders:
    """ASGI middleware: adds the headers to every HTTP answer, and to the page itself what to load early."""

    def __init__(self, app: ASGIApp):
        index = INDEX.read_text(encoding="utf-8")
        self.app = app
        self.headers = headers(index)
        self.early = [(b"link", preloads(SCRIPTS, index).encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in self.headers}
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in names]
                early = self.early if _is_page(kept) else []
                message = {**message, "headers": [*kept, *self.headers, *early]}
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


def _is_page(pairs: list[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in pairs)


app = st.App(Path(__file__).with_name("app.py"), middleware=[Middleware(SecurityHeaders)])
