"""The Streamlit app with the HTTP headers it does not send itself. `ui.launch` starts this file.

A content security policy means that even if a text from outside were rendered as markup, the browser would
load no foreign image, run no foreign script and show the page in no foreign frame.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

INDEX = Path(st.__file__).parent / "static" / "index.html"


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


class SecurityHeaders:
    """ASGI middleware: adds the headers to every HTTP answer."""

    def __init__(self, app: ASGIApp):
        self.app = app
        self.headers = headers(INDEX.read_text(encoding="utf-8"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in self.headers}
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in names]
                message = {**message, "headers": [*kept, *self.headers]}
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


app = st.App(Path(__file__).with_name("streamlit_app.py"), middleware=[Middleware(SecurityHeaders)])
