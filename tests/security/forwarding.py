"""A proxy for tests: passes connections on from another loopback address and adds headers to each request's head."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit


@contextmanager
def forwarding(target: str, source: str, headers: Mapping[str, str]) -> Iterator[str]:
    """A proxy on a free port, which reaches `target` from the address `source`; yields its address."""
    parts = urlsplit(target)
    added = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            out, into = await asyncio.open_connection(parts.hostname, parts.port, local_addr=(source, 0))
            line, _, rest = head.partition(b"\r\n")
            upgrade = b"\r\nupgrade:" in head.lower()
            # One request a connection, so that every request passes here.
            into.write(
                line
                + b"\r\n"
                + added
                + (b"" if upgrade else b"Connection: close\r\n")
                + _without_connection(rest, upgrade)
            )
            await asyncio.gather(_copy(reader, into), _copy(out, writer))
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", 0), loop).result(10)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _without_connection(rest: bytes, upgrade: bool) -> bytes:
    lines = rest.split(b"\r\n")
    return b"\r\n".join(line for line in lines if upgrade or not line.lower().startswith(b"connection:"))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
