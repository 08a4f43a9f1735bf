"""Servers for the agent's fault table; each answers every request with one kind of fault."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Answer = Callable[[socket.socket], None]
Talk = Callable[[socket.socket, bytes], None]


@contextmanager
def hostile(answer: Answer) -> Iterator[str]:
    """The URL of a server that reads a request and then calls `answer` with the connection."""
    with talking(lambda connection, request: answer(connection)) as url:
        yield url


@contextmanager
def talking(talk: Talk, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a server that calls `talk` with each connection and its first request."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        threading.Thread(target=_accept, args=(listener, talk, tls), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, talk: Talk, tls: ssl.SSLContext | None) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, talk, tls), daemon=True).start()


def _serve(connection: socket.socket, talk: Talk, tls: ssl.SSLContext | None) -> None:
    with suppress(OSError):
        connection.settimeout(60.0)
        with tls.wrap_socket(connection, server_side=True) if tls else connection as opened:
            talk(opened, read_request(opened))


def read_request(connection: socket.socket) -> bytes:
    """The request with a body of Content-Length bytes."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        piece = connection.recv(65536)
        if not piece:
            break
        body += piece
    return head + b"\r\n\r\n" + body


def answers(status: str, body: bytes = b"", *headers: bytes) -> Answer:
    """Send one complete HTTP/1.0 response, then close the connection."""
    lines = [b"HTTP/1.0 " + status.encode(), b"Content-Length: %d" % len(body), *headers]
    return lambda connection: connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)


def drips(head: bytes, every: float = 0.05) -> Answer:
    """Send the head, then one byte at a time without end: no single read times out."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(b"x")
            time.sleep(every)

    return answer


def floods(head: bytes, piece: bytes) -> Answer:
    """Send the head, then `piece` without end, as fast as the client reads."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece * 100)

    return answer


def hangs(connection: socket.socket) -> None:
    """Never answers."""
    time.sleep(3600)
