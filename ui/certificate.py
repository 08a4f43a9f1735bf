"""Renewal of the dashboard's TLS certificate without a restart; `ui.security_headers` starts it.

Streamlit gives its certificate files to uvicorn, which reads them once. This loads them into uvicorn's live context when
they have changed. The server has the same in `controlplane.runtime.certificate`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import streamlit as st

log = logging.getLogger(__name__)
CHECK_SECONDS = 2.0


@contextlib.asynccontextmanager
async def renewing(app: Any) -> AsyncIterator[None]:
    """The app's lifespan: checks the files every CHECK_SECONDS, where Streamlit was given some."""
    files = [st.get_option(f"server.ssl{name}File") for name in ("Cert", "Key")]
    watching = asyncio.create_task(_watch(*map(Path, files))) if all(files) else None
    try:
        yield
    finally:
        if watching:
            watching.cancel()


async def _watch(cert: Path, key: Path) -> None:
    context = live_context()
    if context is None:
        log.warning(
            "the dashboard's TLS certificate is not renewed without a restart: no uvicorn server found"
        )
        return
    seen = stamps(cert, key)
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if (found := stamps(cert, key)) != seen:
            seen = found
            renew(context, cert, key)


def live_context() -> ssl.SSLContext | None:
    """The context of the uvicorn server of this process; uvicorn's handler of SIGTERM is a method of it."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    found = getattr(getattr(server, "config", None), "ssl", None)
    return found if isinstance(found, ssl.SSLContext) else None


def stamps(*files: Path) -> list[tuple[int, int] | None]:
    """What changes with the files; None for one that is not there."""
    return [(found.st_mtime_ns, found.st_ino) if (found := _stat(file)) else None for file in files]


def _stat(file: Path) -> Any:
    with contextlib.suppress(OSError):
        return file.stat()


def renew(context: ssl.SSLContext, cert: Path, key: Path) -> bool:
    """Load the files; whether it was done. A mistake keeps the old certificate."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, _no_password)
        context.load_cert_chain(cert, key, _no_password)
    except (OSError, ValueError) as error:
        log.warning("the renewed TLS certificate cannot be used, the old one stays: %s", error)
        return False
    log.info("TLS certificate renewed")
    return True


def _no_password() -> str:
    raise ValueError("the key is encrypted; it must have no password")  # OpenSSL would ask at the terminal
