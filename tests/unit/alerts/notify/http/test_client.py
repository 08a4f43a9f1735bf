"""The HTTP client of receivers: authorization, redirects, proxies, TLS, waiting times."""

from __future__ import annotations

import base64
from email.utils import formatdate
from time import time

import pytest

from alerts.errors import ReceiverError
from alerts.notify.http.client import HttpClient, HttpResponse, checked, retry_after
from tests.unit.alerts.notify.messages import message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, receiver, serving


def ok(request: Request) -> Answer:
    return Answer(200)


def hook(url: str, http: str) -> str:
    return f"{{url: '{url}/hook', http_config: {http}}}"


@pytest.mark.parametrize(
    ("http", "expected"),
    [
        ("{basic_auth: {username: u, password: 'p:w'}}", f"Basic {base64.b64encode(b'u:p:w').decode()}"),
        ("{authorization: {credentials: c}}", "Bearer c"),
        ("{authorization: {type: Key, credentials: c}}", "Key c"),
        ("{bearer_token_file: token}", "Bearer from-file"),
    ],
)
def test_credentials_are_sent(http: str, expected: str) -> None:
    with serving(ok) as api:
        receiver("webhook", hook(api.url, http), contents={"token": "from-file\n"}).send(message())
    assert api.requests[0].headers["authorization"] == expected


def test_headers_are_sent() -> None:
    with serving(ok) as api:
        http = "{http_headers: {X-A: {values: [a, b]}, X-B: {secrets: [s]}, X-C: {files: [f]}}}"
        receiver("webhook", hook(api.url, http), contents={"f": "c\n"}).send(message())
    headers = api.requests[0].headers
    assert (headers["x-a"], headers["x-b"], headers["x-c"]) == ("a, b", "s", "c")


def test_settings_of_global_apply_where_a_receiver_has_none() -> None:
    with serving(ok) as api:
        general = "{http_config: {bearer_token: g}}"
        receiver("webhook", f"{{url: '{api.url}'}}", general).send(message())
        receiver("webhook", hook(api.url, "{bearer_token: own}"), general).send(message())
    assert [request.headers["authorization"] for request in api.requests] == ["Bearer g", "Bearer own"]


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_that_keeps_the_request_is_followed(status: int) -> None:
    def moved(request: Request) -> Answer:
        return Answer(200) if request.path == "/new" else Answer(status, "", {"Location": "/new"})

    with serving(moved) as api:
        receiver("webhook", hook(api.url, "{bearer_token: t}")).send(message())
        first, second = api.requests
        assert (second.method, second.body, second.headers["authorization"]) == (
            "POST",
            first.body,
            "Bearer t",
        )
        with pytest.raises(ReceiverError, match=f"answered {status}"):
            receiver("webhook", hook(api.url, "{follow_redirects: false}")).send(message())


def test_a_redirect_to_another_host_gets_no_credentials_and_no_circle_is_followed() -> None:
    with serving(ok) as other, serving(lambda r: Answer(308, "", {"Location": f"{other.url}/x"})) as api:
        receiver("webhook", hook(api.url, "{bearer_token: t}")).send(message())
        assert "authorization" not in other.requests[0].headers
    with serving(lambda r: Answer(308, "", {"Location": "/"})) as api, pytest.raises(ReceiverError) as caught:
        receiver("webhook", hook(api.url, "{}")).send(message())
    assert not caught.value.retryable


def test_a_proxy_gets_the_whole_address_and_its_credentials() -> None:
    with serving(ok) as proxy:
        address = proxy.url.replace("http://", "http://u:p%40@")
        receiver(
            "webhook", f"{{url: 'http://nowhere.invalid/a?b=c', http_config: {{proxy_url: '{address}'}}}}"
        ).send(message())
        (request,) = proxy.requests
        assert (request.path, request.headers["host"]) == ("http://nowhere.invalid/a?b=c", "nowhere.invalid")
        assert request.headers["proxy-authorization"] == f"Basic {base64.b64encode(b'u:p@').decode()}"
        with serving(ok) as api:
            receiver(
                "webhook", hook(api.url, f"{{proxy_url: '{proxy.url}', no_proxy: 'x.example,127.0.0.0/8'}}")
            ).send(message())
            assert len(api.requests) == 1
    assert len(proxy.requests) == 1


def test_a_proxy_that_cannot_be_used_is_named() -> None:
    with pytest.raises(ReceiverError, match="proxy_url"):
        receiver("webhook", "{url: 'http://h.example/', http_config: {proxy_url: foo}}").send(message())


class TokenServer:
    """An OAuth 2.0 server of the client credentials grant, and the API that it protects."""

    def __init__(self, in_form: bool = False) -> None:
        self.in_form, self.issued = in_form, 0

    def answer(self, request: Request) -> Answer:
        if request.path == "/hook":
            return (
                Answer(200)
                if request.headers.get("authorization") == f"Bearer t{self.issued}"
                else Answer(401)
            )
        form, basic = request.form, f"Basic {base64.b64encode(b'id:secret').decode()}"
        known = (
            form.get("client_secret") == "secret"
            if self.in_form
            else request.headers.get("authorization") == basic
        )
        if not known or form["grant_type"] != "client_credentials":
            return Answer(401, {"error": "invalid_client"})
        assert (form["scope"], form["audience"]) == ("a b", "x")
        self.issued += 1
        return Answer(200, {"access_token": f"t{self.issued}", "token_type": "Bearer", "expires_in": 3600})


@pytest.mark.parametrize("in_form", [False, True])
def test_an_access_token_is_fetched_kept_and_renewed(in_form: bool) -> None:
    server = TokenServer(in_form)
    with serving(server.answer) as api:
        oauth = f"client_id: id, client_secret: secret, token_url: '{api.url}/token', scopes: [a, b], endpoint_params: {{audience: x}}"
        webhook = receiver("webhook", hook(api.url, f"{{oauth2: {{{oauth}}}}}"))
        webhook.send(message())
        webhook.send(message())
        assert server.issued == 1
        server.issued = 5  # the server has dropped the token
        webhook.send(message())
    assert server.issued == 6


@pytest.mark.parametrize(("value", "seconds"), [("30", 30.0), ("-5", 0.0), ("99999999", 3600.0)])
def test_retry_after_is_a_number_of_seconds(value: str, seconds: float) -> None:
    assert retry_after(HttpResponse(503, {"retry-after": value}, b"")) == seconds


def test_retry_after_is_a_date() -> None:
    found = retry_after(HttpResponse(503, {"retry-after": formatdate(time() + 900, usegmt=True)}, b""))
    assert found is not None and 0 < found <= 900


@pytest.mark.parametrize("value", ["", "soon", "nan"])
def test_an_invalid_retry_after_is_ignored(value: str) -> None:
    assert retry_after(HttpResponse(503, {"retry-after": value}, b"")) is None
    with pytest.raises(ReceiverError) as caught:
        checked("http://a/", HttpResponse(503, {"retry-after": value}, b""))
    assert caught.value.retry_after is None


def test_an_invalid_header_is_a_permanent_error_that_does_not_show_it() -> None:
    with serving(ok) as api, pytest.raises(ReceiverError) as caught:
        HttpClient(headers={"Authorization": "Bearer s3cret\nx"}).request("POST", api.url, b"")
    assert not caught.value.retryable
    assert str(caught.value) == "invalid header or URL"


def test_a_client_shows_none_of_its_headers() -> None:
    assert "s3cret" not in repr(HttpClient(headers={"Authorization": "s3cret"}))
