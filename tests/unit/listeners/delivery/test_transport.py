"""The HTTP transport: how it handles valid and hostile answers."""

import os
import re
import socket
import threading

import pytest

from listeners.delivery.transport import HttpTransport, are_same_servers, normal_url
from listeners.protocol import wire
from listeners.protocol.errors import TooLarge, TransportError
from tests.recording_server import recording_server


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("http://Control:8420/", "http://control:8420"),
        ("https://control/", "https://control:443"),
        ("http://u:p@control/base/", "http://control:80/base"),
        ("file:///mnt/landing/", "file:///mnt/landing"),
    ],
)
def test_one_server_may_be_written_in_several_ways(written, same):
    assert normal_url(written) == normal_url(same)


@pytest.mark.parametrize(
    "other", ["https://control:8420", "http://control:8421", "http://control:8420/base", None, "http://["]
)
def test_other_servers_stay_different(other):
    assert normal_url(other) != normal_url("http://control:8420")


def test_events_are_sent_and_acknowledged(recorder):
    line = wire.encode_event(
        wire.Event("3f2c8f5e-6f0a-4a7e-9d6e-0b9e2f6d1c11", 4, 1.0, wire.App("a"), "heartbeat", {})
    )
    assert HttpTransport(recorder.url, "t").send([line.encode()]).seq == 4
    assert recorder.events[0]["seq"] == 4


def test_a_request_names_its_sender_which_may_deliver_the_events_of_a_dead_agent(recorder):
    line = wire.encode_event(wire.Event("dead", 1, 1.0, wire.App("a"), "heartbeat", {}))
    HttpTransport(recorder.url, "t", agent="sender").send([line.encode()])
    assert recorder.headers["X-Agent"] == "sender"


def test_commands_are_received_and_results_sent(recorder):
    recorder.commands.put({"id": "c/1", "action": "stop", "query_id": "q"})
    transport = HttpTransport(recorder.url + "/", "t")
    assert transport.poll("agent", 1.0)[0].id == "c/1"
    transport.answer("c1", wire.CommandResult("succeeded", "done"))
    assert recorder.results["c1"]["reason"] == "done"


def test_malformed_commands_are_ignored(recorder):
    recorder.commands.put({"id": "c", "action": "explode"})
    assert HttpTransport(recorder.url, "t").poll("agent", 1.0) == []


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(500, True), (503, True), (401, True), (404, True), (429, True), (302, True), (400, False)],
)
def test_refusal_is_marked_retryable_or_not(recorder, status, retryable):
    recorder.refusal = (status, {"Retry-After": "7", "Location": "http://127.0.0.1:1/"})
    with pytest.raises(TransportError) as caught:
        HttpTransport(recorder.url, "t").send([b"{}"])
    assert caught.value.retryable is retryable and caught.value.retry_after == 7.0


def test_http_413_has_its_own_error(recorder):
    recorder.refusal = (413, {})
    with pytest.raises(TooLarge):
        HttpTransport(recorder.url, "t").send([b"{}"])


def test_redirect_is_not_followed(recorder):
    recorder.refusal = (307, {"Location": recorder.url + "/elsewhere"})
    with pytest.raises(TransportError):
        HttpTransport(recorder.url, "t").send([b"{}"])
    assert recorder.posts == 1


def test_unreachable_server_is_a_retryable_error():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TransportError, match="no answer") as caught:
        HttpTransport(f"http://127.0.0.1:{port}", None).send([b"{}"])
    assert caught.value.retryable


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[[[[",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_200_000,
    ],
)
def test_hostile_answer_is_a_transport_error(answer):
    with hostile(answer) as url, pytest.raises(TransportError):
        HttpTransport(url, "t").send([b"{}"], timeout=5.0)


def test_invalid_url_is_refused_at_once():
    with pytest.raises(TransportError, match="http:// or https://"):
        HttpTransport("localhost:8420", None)


def test_result_with_invalid_unicode_is_still_delivered():
    taken = []
    with hostile(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", taken) as url:
        HttpTransport(url, "t").answer("id", wire.CommandResult("failed", "no file " + os.fsdecode(b"\xff")))
    assert b'"no file ?"' in taken[0]


def test_rejected_lines_are_returned_whatever_else_is_in_the_answer():
    body = b'{"acknowledged": 3, "rejected": [{"line": 2, "error": "no room"}, {"line": "x"}, 7]}'
    with hostile(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)) as url:
        answer = HttpTransport(url, "t").send([b"{}", b"{}", b"{}"])
    assert (answer.seq, answer.rejected, answer.why) == (3, 3, "no room")
    assert list(answer.lines) == [(2, "no room"), (0, "None"), (0, "None")]


def _lacks(request):
    """Whether the request's body is incomplete."""
    head, found, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return not found or (length is not None and len(body) < int(length[1]))


class hostile:
    """A server that answers the first request with the given bytes and closes the connection."""

    def __init__(self, answer, taken=None):
        self._answer, self._taken = answer, [] if taken is None else taken

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def _serve(self):
        connection, _ = self._socket.accept()
        self._taken.append(connection.recv(65536))
        while _lacks(self._taken[0]):
            self._taken[0] += connection.recv(65536)
        connection.sendall(self._answer)
        connection.close()

    def __exit__(self, *args):
        self._socket.close()


STANDBY = (503, {"Retry-After": "1"})


def unused_url():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("first", ["dead", "standby"])
def test_the_next_server_of_the_list_gets_the_events_at_once(recorder, first):
    with recording_server() as other:
        other.refusal = STANDBY
        address = unused_url() if first == "dead" else other.url
        transport = HttpTransport(f"{address}/, {recorder.url}", "t")
        assert transport.send([b'{"seq": 1, "type": "idle", "agent": "a"}']).seq == 1
        assert transport.poll("agent", 0.1) == []
        assert (recorder.posts, other.posts) == (1, 0 if first == "dead" else 1)


def test_a_server_that_answered_is_asked_first_again(recorder):
    with recording_server() as other:
        transport = HttpTransport(f"{other.url},{recorder.url}", "t")
        for refusing, taking in ((other, recorder), (recorder, other), (other, recorder)):
            refusing.refusal, taking.refusal = STANDBY, None
            before = taking.posts
            for seq in (1, 2):
                transport.send([b'{"seq": %d, "type": "idle", "agent": "a"}' % seq])
            assert taking.posts == before + 2


def test_without_an_active_server_the_wait_is_that_of_the_standby(recorder):
    recorder.refusal = STANDBY
    for urls in (f"{unused_url()},{recorder.url}", f"{recorder.url},{unused_url()}"):
        with pytest.raises(TransportError) as caught:
            HttpTransport(urls, "t").send([b"{}"])
        assert (caught.value.retry_after, caught.value.retryable) == (1.0, True)


def test_a_refusal_of_the_request_itself_goes_to_no_other_server(recorder):
    with recording_server() as other:
        other.refusal = (401, {})
        with pytest.raises(TransportError, match="401"):
            HttpTransport(f"{other.url},{recorder.url}", "t").send([b"{}"])
        assert recorder.posts == 0


def test_lists_that_share_an_address_name_the_same_servers():
    assert are_same_servers("http://a:1,http://b:1/", "http://b:1")
    assert not are_same_servers("http://a:1,http://b:1", "http://c:1")
    assert not are_same_servers(None, "http://c:1")
