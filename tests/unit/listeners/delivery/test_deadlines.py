"""The timeout covers the whole exchange, whatever the server does."""

import threading
import time

import pytest

from listeners.delivery.transport import MAX_ANSWER_BYTES, HttpTransport
from listeners.protocol.errors import TransportError
from tests.acceptance.fault_servers import answers, drips, floods, hangs, hostile

OK = b"HTTP/1.1 200 OK\r\n"
TROUBLES = {
    "drips its status line": drips(b"HTTP/1.1 "),
    "drips its headers": drips(OK + b"X-Slow: "),
    "drips its body": drips(OK + b"Content-Length: 100000\r\n\r\n{"),
    "drips a refusal": drips(b"HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n{"),
    "says continue for ever": floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "never answers": hangs,
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_slow_server_blocks_no_thread_beyond_the_timeout(trouble):
    with hostile(TROUBLES[trouble]) as url:
        transport, done = HttpTransport(url, "t"), threading.Event()

        def send():
            with pytest.raises(TransportError):
                transport.send([b"{}"], timeout=0.5)
            done.set()

        threading.Thread(target=send, daemon=True).start()
        assert done.wait(20.0)  # without the deadline this would block forever


@pytest.mark.parametrize(
    "trouble",
    [
        floods(OK + b"\r\n", b"x" * 1000),
        floods(OK, b"X-Header: y\r\n"),
        floods(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n"),
        floods(b"", b"x" * 1000),
    ],
    ids=["body", "headers", "chunks", "status"],
)
def test_endless_answer_is_cut_at_the_limit(trouble):
    with hostile(trouble) as url, pytest.raises(TransportError):
        HttpTransport(url, "t").send([b"{}"], timeout=30.0)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>log in first</html>",
        b"[" * 100_000,
        b'{"acknowledged": "12"}',
        b'{"acknowledged": true}',
        b'{"acknowledged": 1.5}',
        b'{"acknowledged": ' + b"9" * 5000 + b"}",
        b"[1, 2]",
        b"null",
        b"",
        b"\xff\xfe",
        b" " * (MAX_ANSWER_BYTES + 10),
    ],
)
def test_answer_of_the_wrong_type_acknowledges_nothing(body):
    with hostile(answers("200 OK", body)) as url, pytest.raises(TransportError):
        HttpTransport(url, "t").send([b"{}"], timeout=10.0)


@pytest.mark.parametrize("rejected", ["7", '"x"', '{"a": 1}', "[null]", "[[[]]]", '[{"error": {"a": 1}}]'])
def test_malformed_rejections_are_tolerated(rejected):
    body = b'{"acknowledged": 5, "rejected": %s}' % rejected.encode()
    with hostile(answers("200 OK", body)) as url:
        assert HttpTransport(url, "t").send([b"{}"], timeout=10.0).seq == 5


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'{"commands": 7}', b'{"commands": [7, null, [], {"id": []}]}']
)
def test_malformed_commands_are_tolerated(body):
    with hostile(answers("200 OK", body)) as url:
        assert HttpTransport(url, "t").poll("agent", 0.1) == []


def test_http_1_0_server_that_closes_the_connection_works():
    with hostile(answers("200 OK", b'{"acknowledged": 9, "rejected": []}')) as url:
        assert HttpTransport(url, "t").send([b"{}"], timeout=10.0).seq == 9


def test_slow_server_within_the_timeout_succeeds():
    def answer(connection):
        for byte in b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"acknowledged":1}':
            connection.sendall(bytes([byte]))
            time.sleep(0.001)

    with hostile(answer) as url:
        assert HttpTransport(url, "t").send([b"{}"], timeout=10.0).seq == 1
