"""The webhook: Alertmanager's payload, and a sender that is bounded in every way."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from alerts.errors import ReceiverError
from alerts.grouping import add_alerts
from alerts.notify import config
from alerts.notify.http.client import HttpClient, redacted_url
from alerts.notify.http.connections import is_forbidden
from alerts.notify.http.fields import address_problem
from alerts.notify.message import Message, firing_first
from alerts.notify.reasons import Reason
from alerts.notify.receivers.base import Integration
from alerts.notify.receivers.webhook import SCHEMA, Webhook, payload
from alerts.state import Alert, AlertState
from alerts.templates.library import library
from tests.paths import DATA
from tests.unit.alerts.examples import alert, resolved
from tests.unit.alerts.notify.receivers.fakes import problems


def webhook(url: str, timeout: float = 10.0, headers: dict[str, str] | None = None) -> Webhook:
    settings = {"send_resolved": True, "url": url, "max_alerts": 0, "timeout": None}
    http = HttpClient(headers=headers or {}, timeout=timeout)
    return Webhook(Integration("hook", SCHEMA, settings, http, library()))


def message(*alerts: Alert) -> Message:
    links = {item.fingerprint: "http://here/rules?a=1&b=2" for item in alerts}
    key = '{}/{team="data"}:{app="shop"}'
    return Message(
        "hook", key, {"app": "shop"}, firing_first(alerts), "http://here", Reason.FIRST, 0.0, links
    )


A = alert("A", at=1_700_000_000.25, app="shop", query="x")
B = resolved(alert("B", at=1_700_000_000.0, app="shop"), 1_700_000_060.5)


def test_the_payload_is_alertmanagers_version_4() -> None:
    assert payload(message(A, B)) == {
        "receiver": "hook",
        "status": "firing",
        "alerts": [
            {
                "status": "firing",
                "labels": {"alertname": "A", "app": "shop", "query": "x"},
                "annotations": {"summary": A.annotations["summary"]},
                "startsAt": "2023-11-14T22:13:20.25Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": "http://here/rules?a=1&b=2",
                "fingerprint": A.fingerprint,
            },
            {
                "status": "resolved",
                "labels": {"alertname": "B", "app": "shop"},
                "annotations": {"summary": B.annotations["summary"]},
                "startsAt": "2023-11-14T22:13:20Z",
                "endsAt": "2023-11-14T22:14:20.5Z",
                "generatorURL": "http://here/rules?a=1&b=2",
                "fingerprint": B.fingerprint,
            },
        ],
        "groupLabels": {"app": "shop"},
        "commonLabels": {"app": "shop"},
        "commonAnnotations": {},
        "externalURL": "http://here",
        "version": "4",
        "groupKey": '{}/{team="data"}:{app="shop"}',
        "truncatedAlerts": 0,
        "notification_reason": "first notification",
    }


def test_no_more_alerts_are_sent_than_asked_for_and_the_rest_are_counted() -> None:
    reported = payload(message(A, B), max_alerts=1)
    assert [item["fingerprint"] for item in reported["alerts"]] == [A.fingerprint]
    assert reported["truncatedAlerts"] == 1
    assert reported["commonLabels"] == {"app": "shop"}


RECORDED = DATA / "routing" / "alertmanager-0.25.json"
ROUTES = """
route:
  receiver: default
  group_by: [app, alertname]
  routes:
    - matchers: ['severity="critical"', 'team=~"da.*"']
receivers: [{name: default}]
"""


@pytest.mark.parametrize(
    "recorded", json.loads(RECORDED.read_text(encoding="utf-8")), ids=lambda r: r["groupKey"]
)
def test_group_and_payload_are_those_that_alertmanager_makes_of_the_same_alerts(
    recorded: dict[str, Any],
) -> None:
    """Recorded from Alertmanager 0.25 with these routes; its order of alerts is its own, and it gives no reason."""
    loaded, _ = config.load(ROUTES)
    assert loaded is not None
    alerts = {item["fingerprint"]: reported_by(item) for item in recorded["alerts"]}
    groups = add_alerts(
        {}, (replace(item, state=AlertState.FIRING) for item in alerts.values()), loaded.route
    )
    (group,) = add_alerts(groups, alerts.values(), loaded.route).values()
    links = {item["fingerprint"]: item["generatorURL"] for item in recorded["alerts"]}
    reported = Message(
        group.receiver,
        group.key,
        group.labels,
        firing_first(group.alerts.values()),
        "http://am.example",
        Reason.FIRST,
        0.0,
        links,
    )
    ours = payload(reported)
    assert ours.pop("notification_reason")
    for item in (ours, recorded):
        item["alerts"] = sorted(item["alerts"], key=lambda alert: alert["fingerprint"])
    assert ours == recorded


def reported_by(recorded: dict[str, Any]) -> Alert:
    over = recorded["status"] == "resolved"
    item = alert(recorded["labels"]["alertname"], at=datetime.fromisoformat(recorded["startsAt"]).timestamp())
    item = replace(item, labels=recorded["labels"], annotations=recorded["annotations"])
    return resolved(item, datetime.fromisoformat(recorded["endsAt"]).timestamp()) if over else item


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that keeps what is posted and answers as it is reported."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append({"path": self.path, "headers": dict(self.headers), "body": json.loads(body)})
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def status(code: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.mark.parametrize("code", [200, 202, 204])
def test_a_message_that_was_answered_well_is_taken(code: int) -> None:
    with answering(status(code)) as (url, seen):
        webhook(f"{url}/path?token=1", headers={"Authorization": "Bearer t"}).send(message(A))
    assert seen[0]["path"] == "/path?token=1"
    assert seen[0]["headers"]["Content-Type"] == "application/json"
    assert seen[0]["headers"]["Authorization"] == "Bearer t"
    assert seen[0]["body"] == payload(message(A))


@pytest.mark.parametrize(
    ("code", "retryable"), [(500, True), (503, True), (429, True), (400, False), (404, False), (302, False)]
)
def test_answers_that_pass_by_themselves_are_tried_soon_and_others_are_not(
    code: int, retryable: bool
) -> None:
    reported = pytest.raises(ReceiverError, match=f"answered {code}: because")
    answer = status(code, b"because", Location="http://127.0.0.1:1/")
    with answering(answer) as (url, seen), reported as caught:
        webhook(f"{url}/secret").send(message(A))
    assert (caught.value.retryable, caught.value.status) == (retryable, code)
    assert "secret" not in str(caught.value)
    assert len(seen) == 1  # no redirect was followed


def test_a_host_that_does_not_answer_may_later() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        with pytest.raises(ReceiverError, match="could not be reached") as caught:
            webhook(url).send(message(A))
    assert caught.value.retryable


def test_a_silent_host_is_waited_for_no_longer_than_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(ReceiverError, match=r"did not answer within 0\.2 s") as caught:
            webhook(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.2).send(message(A))
    assert caught.value.retryable
    assert time.monotonic() - began < 2


def test_an_endless_answer_is_read_up_to_a_bound() -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(400)
        handler.end_headers()
        try:
            for _ in range(1000):
                handler.wfile.write(b"x" * 65_536)
        except OSError:
            return

    with answering(endless) as (url, _), pytest.raises(ReceiverError) as caught:
        webhook(url).send(message(A))
    assert len(str(caught.value)) < 400


def test_an_answer_that_drips_is_not_waited_for_past_the_deadline() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        try:
            for _ in range(20):
                handler.wfile.write(b"x")
                handler.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return

    began = time.monotonic()
    with answering(drip) as (url, _):
        webhook(url, timeout=0.3).send(message(A))
        assert time.monotonic() - began < 0.8


def test_headers_that_drip_are_not_waited_for_past_the_deadline() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        try:
            for at in range(20):
                handler.wfile.write(b"HTTP/1.1 200 OK\r\n"[at : at + 1] or b"x")
                handler.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return

    began = time.monotonic()
    with answering(drip) as (url, _):
        with pytest.raises(ReceiverError) as caught:
            webhook(url, timeout=0.3).send(message(A))
        assert time.monotonic() - began < 0.8
    assert caught.value.retryable


def test_what_is_no_http_answer_may_pass() -> None:
    def garbage(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"no such thing\r\n\r\n")

    with answering(garbage) as (url, _), pytest.raises(ReceiverError) as caught:
        webhook(url).send(message(A))
    assert caught.value.retryable


def test_numbers_that_json_has_not_and_odd_texts_are_sent_all_the_same() -> None:
    odd = alert("A", query='é☃"\u2028\n')
    with answering(status(200)) as (url, seen):
        webhook(url).send(message(odd))
    assert seen[0]["body"]["alerts"][0]["labels"]["query"] == 'é☃"\u2028\n'


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a", "http://", "http://a b/", "http://a/\r\nX: y", "http://a:99999/", "//a", "http://[::1"],
)
def test_what_is_no_address_is_refused_for_good(url: str) -> None:
    assert address_problem(url)
    with pytest.raises(ReceiverError) as caught:
        webhook(url).send(message(A))
    assert not caught.value.retryable


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    assert (
        redacted_url("https://user:pw@host.example:8443/services/T0/B0?token=x")
        == "https://host.example:8443/…"
    )
    assert "pw" not in repr(webhook("https://user:pw@host/x", headers={"Authorization": "Bearer t"}))


@pytest.mark.parametrize("address", ["169.254.169.254", "0.0.0.0", "0", "224.0.0.1"])
def test_nothing_is_sent_to_an_address_where_secrets_are_kept(address: str) -> None:
    with pytest.raises(ReceiverError, match="not permitted"):
        HttpClient(timeout=2.0).request("POST", f"http://{address}/latest/meta-data", b"{}")


@pytest.mark.parametrize("address", ["::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0", "::", "ff02::1"])
def test_nor_to_such_an_address_of_the_newer_kind(address: str) -> None:
    assert is_forbidden(address)


def test_receivers_on_private_networks_are_allowed() -> None:
    allowed = ("10.0.0.1", "192.168.1.1", "127.0.0.1", "::1", "fd00::1", "8.8.8.8")
    assert not any(is_forbidden(ip) for ip in allowed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{url: 'http://a/', max_alerts: -1}", "max_alerts: must not be negative"),
        ("{url: 'http://a/', max_alerts: many}", "is not an integer"),
        ("{url: 'http://a/', http_config: {proxy_url: ':bad'}}", "proxy_url: missing scheme"),
        ("{url: 'http://a/', http_config: {proxy_url: 'http://p:x'}}", "proxy_url: invalid URL"),
    ],
)
def test_what_alertmanager_refuses_is_refused(text: str, expected: str) -> None:
    assert expected in problems("webhook", text)[0]
